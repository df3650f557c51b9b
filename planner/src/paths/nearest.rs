//! What would keep a path that is refused: longer promises, fewer messages. Each is planned before it is told.

use super::refusal::{PathCause, PathRefusal};
use crate::refusal::{Refusal, Witness};
use giusto_model::{together, Despite, Duration, Fails, Path, PathSource, Percentile, Promise, Site, Within};

/// How much longer a promise is tried, in tenths of the least that may be enough.
const LONGER: [u64; 8] = [10, 12, 15, 20, 30, 40, 60, 80];
/// Between one that is enough and one that is not, so many are tried.
const BETWEEN: u32 = 3;
/// Where so many paths share services, only few of those are tried, and for all of them at once: each takes seconds.
const FEW: usize = 3;
const SPARSE: [u64; 3] = [10, 20, 60];
/// What is left of the messages, in hundredths of those that a core could serve.
const FEWER: [u64; 6] = [95, 70, 50, 30, 20, 10];

/// The same refusal with what would fit, where it is one of a path; one of a stage that has no place becomes its path's.
/// `site` is as it was asked for, `resolved` with what is counted on, and `fits` says whether a site has a plan.
pub(crate) fn with_nearest(
    site: &Site,
    resolved: Option<&Site>,
    refusal: Refusal,
    fits: &dyn Fn(&Site) -> bool,
) -> Refusal {
    match refusal {
        Refusal::Path(refusal) => {
            let nearest: Vec<String> = match &refusal.cause {
                PathCause::TooSlow { within, least, .. } => {
                    let first = (10 * u128::from(least.ns())).div_ceil(u128::from(within.ns().max(1)));
                    let first = u64::try_from(first).unwrap_or(u64::MAX / 100);
                    // Where others are too slow as well, longer ones for all that have less.
                    let all = with_it(site, &refusal.path);
                    let own = || longer(site, &refusal.path, first, fits);
                    let longer = match all.len() {
                        1 => own(),
                        2..=FEW => own().or_else(|| no_less(site, &all, *least, &LONGER, fits)),
                        _ => no_less(site, &all, *least, &SPARSE, fits),
                    };
                    let own = deeper(site, &refusal.path, fits).into_iter().chain(longer);
                    own.chain(unfailing(site, &refusal.path, fits)).collect()
                }
                PathCause::Overload { load, most, .. } => {
                    fewer(site, &refusal.path, most.as_f64() / load.as_f64(), fits).into_iter().collect()
                }
                _ => Vec::new(),
            };
            Refusal::Path(Box::new(PathRefusal { nearest, ..*refusal }))
        }
        Refusal::DoesNotFit(witness) => {
            let found = resolved.and_then(|resolved| no_room(site, resolved, &witness, fits));
            found.unwrap_or(Refusal::DoesNotFit(witness))
        }
        Refusal::On { host, refusal } => {
            Refusal::On { host, refusal: Box::new(with_nearest(site, resolved, *refusal, fits)) }
        }
        other => other,
    }
}

fn no_room(site: &Site, resolved: &Site, witness: &Witness, fits: &dyn Fn(&Site) -> bool) -> Option<Refusal> {
    let path = site.paths.through(&witness.service).next()?;
    let own = resolved.services.iter().find(|service| service.name == witness.service)?;
    let Promise::Stage { counted: Some(counted), .. } = own.promise else { return None };
    let mut nearest: Vec<String> = longer(site, &path.name, 11, fits).into_iter().collect();
    nearest.push(match witness.host.as_ref().or(site.hosts.first().map(|host| &host.name)) {
        Some(host) => format!("another core on {host}"),
        None => "another core".into(),
    });
    let (service, why) = (witness.service.clone(), witness.cause.to_string());
    let cause = PathCause::NoRoom { service, needs: counted.bandwidth(), why };
    Some(Refusal::Path(Box::new(PathRefusal { path: path.name.clone(), cause, nearest })))
}

/// The names of this path and of those that share services with it, directly or by others.
fn with_it<'a>(site: &'a Site, name: &str) -> Vec<&'a str> {
    let together = together(site.paths.all.iter().map(Path::services));
    let own = site.paths.all.iter().position(|path| path.name == name);
    let all = site.paths.all.iter().zip(&together);
    let all = all.filter(|(_, first)| own.is_some_and(|own| together[own] == **first));
    all.map(|(path, _)| path.name.as_str()).collect()
}

/// The site with a change of these paths.
fn changed(site: &Site, names: &[&str], change: impl Fn(&mut Path)) -> Site {
    let mut other = site.clone();
    other.paths.all.iter_mut().filter(|path| names.contains(&path.name.as_str())).for_each(change);
    other
}

/// Buckets of the planner's own for topics on the way that have others.
fn deeper(site: &Site, name: &str, fits: &dyn Fn(&Site) -> bool) -> Option<String> {
    let path = site.paths.all.iter().find(|path| path.name == name)?;
    let mut other = site.clone();
    let own =
        other.topics.iter_mut().filter(|topic| topic.bucket.is_some() && path.topics().any(|one| one == topic.name));
    let names: Vec<String> = own
        .map(|topic| {
            topic.bucket = None;
            format!("'{}'", topic.name)
        })
        .collect();
    (!names.is_empty() && fits(&other)).then(|| format!("no bucket of its own for topic {}", names.join(", ")))
}

/// The same promise without failures that it bears.
fn unfailing(site: &Site, name: &str, fits: &dyn Fn(&Site) -> bool) -> Option<String> {
    let path = site.paths.all.iter().find(|path| path.name == name).filter(|path| !path.despite.is_empty())?;
    let other = changed(site, &[name], |path| path.despite.clear());
    let promised = promise(&Path { despite: Vec::new(), ..path.clone() });
    fits(&other).then(|| format!("{promised}, without 'despite'"))
}

/// The shortest promise found that is kept, `first` tenths of the present one or more.
fn longer(site: &Site, name: &str, first: u64, fits: &dyn Fn(&Site) -> bool) -> Option<String> {
    let with = |tenths: u64| {
        changed(site, &[name], |path| {
            path.points.iter_mut().for_each(|point| point.within = times(point.within, tenths));
            path.every = path.every.map(|every| times(every, tenths));
        })
    };
    let tried: Vec<u64> = LONGER.iter().map(|part| first.saturating_mul(*part).div_ceil(10)).collect();
    let enough = tried.iter().position(|tenths| fits(&with(*tenths)))?;
    let mut found = tried[enough];
    let mut short = if enough == 0 { found } else { tried[enough - 1] };
    for _ in 0..BETWEEN {
        let middle = short + (found - short) / 2;
        if middle == short {
            break;
        }
        *(if fits(&with(middle)) { &mut found } else { &mut short }) = middle;
    }
    let site = with(found);
    site.paths.all.iter().find(|path| path.name == name).map(promise)
}

/// The least time found, `least` or so many tenths of it, that is kept where none of these paths is promised less.
fn no_less(
    site: &Site,
    names: &[&str],
    least: Duration,
    tenths: &[u64],
    fits: &dyn Fn(&Site) -> bool,
) -> Option<String> {
    tenths.iter().find_map(|tenths| {
        let time = times(least, *tenths);
        let other = changed(site, names, |path| {
            path.points.iter_mut().for_each(|point| point.within = point.within.max(time));
        });
        let all = site.paths.all.iter().zip(&other.paths.all).filter(|(was, is)| was != is);
        let told: Vec<String> = all.map(|(_, path)| format!("{} of '{}'", promise(path), path.name)).collect();
        fits(&other).then(|| told.join(" and "))
    })
}

/// As a site has it.
fn promise(path: &Path) -> String {
    let points = path.points.iter().map(|&Within { percentile, within }| point(Some(percentile), within));
    let despite: Vec<String> = path.despite.iter().map(borne).collect();
    let despite = match &despite[..] {
        [] => None,
        [only] => Some(format!("despite: {only}")),
        all => Some(format!("despite: [{}]", all.join(", "))),
    };
    let all: Vec<String> = points.chain(path.every.map(|every| point(None, every))).chain(despite).collect();
    format!("promise: {{{}}}", all.join(", "))
}

fn borne(one: &Despite) -> String {
    let gap = one.gap.map_or(String::new(), |gap| format!(", gap: {}", written(gap)));
    match &one.fails {
        Fails::Leader => "leader".into(),
        Fails::Service(name) => format!("{{service: {name}{gap}}}"),
        Fails::Topic(name) => format!("{{topic: {name}{gap}}}"),
    }
}

/// The most messages found that are served as promised, at most this part of them.
fn fewer(site: &Site, name: &str, part: f64, fits: &dyn Fn(&Site) -> bool) -> Option<String> {
    let path = site.paths.all.iter().find(|path| path.name == name)?;
    FEWER.iter().find_map(|hundredths| {
        let part = part * *hundredths as f64 / 100.0;
        let (source, told) = match path.source {
            PathSource::Poisson(rate) => {
                let each = rate.per_second() * part;
                let text = if each >= 10.0 { format!("{}/s", each as u64) } else { format!("{each:.3}/s") };
                (PathSource::Poisson(text.parse().ok()?), format!("source: {{poisson: {text}}}"))
            }
            PathSource::Periodic { period, jitter, burst } => {
                let period = round_up((period.ns() as f64 / part) as u64);
                (PathSource::Periodic { period, jitter, burst }, format!("period: {}", written(period)))
            }
        };
        fits(&changed(site, &[name], |path| path.source = source)).then_some(told)
    })
}

fn times(time: Duration, tenths: u64) -> Duration {
    round_up((u128::from(time.ns()) * u128::from(tenths) / 10).min(u128::from(u64::MAX)) as u64)
}

/// Two digits.
fn round_up(ns: u64) -> Duration {
    let step = 10u64.saturating_pow(ns.max(100).ilog10() - 1);
    Duration::from_ns(ns.div_ceil(step).saturating_mul(step))
}

/// `p99: 30ms`
fn point(percentile: Option<Percentile>, within: Duration) -> String {
    let what = percentile.map_or("every".to_string(), |percentile| percentile.to_string());
    format!("{what}: {}", written(within))
}

/// As a site has it.
fn written(time: Duration) -> String {
    time.to_string().replace(' ', "")
}
