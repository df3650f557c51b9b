use super::*;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration as Span;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Each event as `field=value ...`.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Heard {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                let _ = write!(self.0, "{}={value:?} ", field.name());
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
}

fn service(name: &str, misses: u64) -> ServiceStatus {
    ServiceStatus { name: name.into(), misses: Some(misses), ..ServiceStatus::default() }
}

fn late(took_ms: u64) -> Late {
    Late::Job(LateJob {
        service: "cache".into(),
        by: ObservedBy::Requests,
        process: 7,
        thread: 8,
        from_ns: 1_000,
        to_ns: 1_000 + took_ms * 1_000_000,
        within_ns: 60_000_000,
        cause: Cause::Manager,
    })
}

#[test]
fn late_jobs_and_missed_periods_are_said_together_and_not_too_often() {
    let heard = Heard::default();
    let said = || std::mem::take(&mut *heard.0.lock().unwrap());
    let (mut events, begin) = (Events::default(), Instant::now());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(heard.clone()), || {
        events.take(&[], (&[service("cache", 3), service("busy", 5)], &[]), begin);
        assert!(said().is_empty(), "what was before is not news");
        events.take(&[late(70), late(200), late(80)], (&[service("cache", 3), service("busy", 9)], &[]), begin);
        let [cache, busy] = [said(), vec![]]
            .concat()
            .try_into()
            .map(|mut all: [String; 2]| {
                all.sort_by_key(|one| one.contains("busy"));
                all
            })
            .unwrap();
        for part in
            ["service=\"cache\"", "late=3 ", "took_ns=200000000", "within_ns=60000000", "cause=\"manager\"", "thread=8"]
        {
            assert!(cache.contains(part), "{part}: {cache}");
        }
        assert!(cache.contains("cache: 3 requests took longer than 60 ms, the longest 200 ms, "), "{cache}");
        assert!(busy.contains("missed=4 "), "{busy}");
        let soon = begin + Span::from_secs(9);
        events.take(&[late(90)], (&[service("cache", 3), service("busy", 10)], &[]), soon);
        assert!(said().is_empty(), "soon after");
        events.take(&[late(61)], (&[service("cache", 3), service("busy", 2)], &[]), begin + APART);
        let told = said();
        assert!(told.len() == 1 && told[0].contains("late=2 ") && told[0].contains("took_ns=90000000"), "{told:?}");
        events.take(&[], (&[service("busy", 4)], &[]), begin + 2 * APART);
        assert!(said()[0].contains("missed=2 "), "it had begun anew");
    });
}

#[test]
fn late_messages_of_a_path_are_said_with_the_service_at_which_most_were() {
    let heard = Heard::default();
    let said = || std::mem::take(&mut *heard.0.lock().unwrap());
    let (mut events, begin) = (Events::default(), Instant::now());
    let (name, through) = ("order".to_string(), Vec::new());
    let paths = [PathStatus { name, through, responses: None, problem: None }];
    let late = |trace: &str, at: &str, took_ms: u64| {
        Late::Message(LateMessage {
            path: "order".into(),
            trace: trace.into(),
            at: at.into(),
            from_unix_ns: 5,
            took_ns: took_ms * 1_000_000,
            within_ns: 150_000_000,
        })
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(heard.clone()), || {
        events.take(&[late("a", "web", 900), late("b", "worker", 160), late("c", "worker", 170)], (&[], &paths), begin);
        let words = said().concat();
        for word in [
            "path order: 3 messages took longer than 150 ms, the longest 900 ms, 2 of them at worker",
            "path=\"order\"",
            "trace=\"a\"",
            "took_ns=900000000",
            "at=\"worker\"",
        ] {
            assert!(words.contains(word), "{word}: {words}");
        }
        events.take(&[late("d", "web", 151)], (&[], &paths), begin + APART / 2);
        assert!(said().is_empty(), "not too often");
        events.take(&[], (&[], &paths), begin + APART);
        assert!(said().concat().contains("1 message took longer"));
        events.take(&[], (&[], &paths), begin + 3 * APART);
        assert!(said().is_empty(), "nothing has come since");
    });
}
