//! Where response times come from: what in the kernel watches services ([`Watch`]), from the first service that wants it on.

use giusto_measure::passive::{Jobs, Responses, Watch};
use giusto_measure::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;

/// What watches services, each under its name.
pub(crate) struct Source<W> {
    kernel: Kernel<W>,
    places: BTreeMap<String, Place>,
    /// Services that have come since it began and found no place.
    pub(crate) unwatched: usize,
}

/// The place of a service in the kernel.
struct Place {
    number: usize,
    /// What another one had left there.
    before: Responses,
}

/// What was counted in the place of a service: before it was watched, and until now.
pub(crate) struct Counted {
    pub(crate) before: Responses,
    pub(crate) now: Responses,
}

impl Counted {
    /// Whether it has been asked something.
    pub(crate) fn is_asked(&self) -> bool {
        self.now.connections != self.before.connections
    }
}

#[derive(Default)]
enum Kernel<W> {
    #[default]
    Off,
    /// Its programs are being verified, which takes some tenths of a second.
    Starting(JoinHandle<Result<W, Error>>),
    On(Box<W>),
    Lacking(String),
}

impl<W> Default for Source<W> {
    fn default() -> Source<W> {
        Source { kernel: Kernel::Off, places: BTreeMap::new(), unwatched: 0 }
    }
}

impl<W: Watch + Send + 'static> Source<W> {
    /// Watches these services with the processes that they have now, and no others.
    pub(crate) fn watch(&mut self, services: &BTreeMap<&str, BTreeSet<u32>>) {
        self.kernel = std::mem::take(&mut self.kernel).further(services.len());
        let Kernel::On(kernel) = &mut self.kernel else { return };
        self.unwatched = 0;
        self.places.retain(|name, place| {
            let is_there = services.contains_key(name.as_str());
            if !is_there {
                let _ = kernel.watch(place.number, &BTreeSet::new());
            }
            is_there
        });
        for (&name, processes) in services {
            let taken: BTreeSet<usize> = self.places.values().map(|place| place.number).collect();
            if !self.places.contains_key(name) {
                let Some(number) = (0..kernel.most()).find(|number| !taken.contains(number)) else {
                    self.unwatched += 1;
                    continue;
                };
                self.places.insert(name.into(), Place { number, before: kernel.responses(number) });
            }
            if let Err(error) = kernel.watch(self.places[name].number, processes) {
                tracing::warn!(service = name, "{error}");
            }
        }
    }

    /// What was counted of a service; `None`: it is not watched.
    pub(crate) fn responses(&self, name: &str) -> Option<Counted> {
        let Kernel::On(kernel) = &self.kernel else { return None };
        let Place { number, before } = self.places.get(name)?;
        Some(Counted { before: before.clone(), now: kernel.responses(*number) })
    }

    /// What tells jobs one by one, and the services by their numbers there; `None`: nothing is watched.
    pub(crate) fn jobs(&self) -> Option<(Jobs, BTreeMap<usize, &str>)> {
        let Kernel::On(kernel) = &self.kernel else { return None };
        Some((kernel.jobs(), self.places.iter().map(|(name, place)| (place.number, name.as_str())).collect()))
    }

    /// Why nothing is watched, if that is so.
    pub(crate) fn lacks(&self) -> Option<&str> {
        match &self.kernel {
            Kernel::Lacking(why) => Some(why),
            _ => None,
        }
    }
}

impl<W: Watch + Send + 'static> Kernel<W> {
    /// Starts it where there is a service to watch, and takes what has been started.
    fn further(self, services: usize) -> Kernel<W> {
        // A reload may add some.
        let most = 2 * services + 16;
        match self {
            Kernel::Off if services > 0 => {
                match std::thread::Builder::new().name("giusto-watch".into()).spawn(move || W::new(most)) {
                    Ok(starting) => Kernel::Starting(starting),
                    Err(_) => Kernel::Off, // no thread is left now; the next second
                }
            }
            Kernel::Starting(starting) if starting.is_finished() => match starting.join() {
                Ok(Ok(kernel)) => Kernel::On(Box::new(kernel)),
                Ok(Err(why)) => Kernel::Lacking(why.to_string()),
                Err(_) => Kernel::Lacking("its thread ended".into()),
            },
            as_before => as_before,
        }
    }
}
