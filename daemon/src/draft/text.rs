//! The text of a site file, with what was observed as comments.

use super::numbers::Demand;
use super::observed::{Answered, Observed};
use giusto_measure::watch::{Pattern, Shape};
use giusto_measure::Served;
use giusto_model::{Adopt, Duration};
use std::fmt::Write;

/// Longest line of a comment.
const WIDTH: usize = 110;

/// The whole file.
pub(super) fn text(observed: &Observed, pattern: &Pattern, demand: &Demand) -> String {
    let mut text = head(observed, pattern);
    let _ = write!(text, "\ngiusto: 1\n\n{}\nservices:\n  {}:\n", host(observed), observed.found.name);
    text += &adopt(observed);
    text += &promise(demand, pattern);
    if !matches!(demand, Demand::Leftovers { .. }) {
        text += &load(observed.served);
    }
    text += "\n";
    text += &comment(
        "  ",
        "Give everything else that is busy on these cores a line too: what is no service of the site may not be kept \
         off them.",
    );
    text + "  # batch: {adopt: {cgroup: batch.slice}, promise: leftovers, at-least: 10%}\n"
}

/// What was observed, as a comment.
fn head(observed: &Observed, pattern: &Pattern) -> String {
    let (found, watched) = (observed.found, observed.watched);
    let mut text = comment(
        "",
        &format!(
            "Written by 'giusto init' after {} was watched for {:.0} s: a beginning, to be read and adapted. \
             'giusto check' says whether it is well-formed, 'giusto plan' what it takes. All keys: formats/site.md.",
            found.adopt,
            watched.length.to_std().as_secs_f64()
        ),
    );
    let [mean, p99, most] = [watched.mean(), watched.execution(0.99), watched.execution(1.0)];
    let others = match watched.preempted {
        0 => String::new(),
        some => format!("; others ran in between {some} times"),
    };
    let rows = [
        ("processor time", format!("{:.1} % of a core", watched.utilization() * 100.0)),
        (
            "threads",
            format!(
                "{}, of which {} did the work (the others only hand over or wake up by timers)",
                watched.threads, watched.workers
            ),
        ),
        ("activations", format!("{}, {} in a second{others}", watched.activations, digits(pattern.rate))),
        ("one of them took", format!("{mean:.3} on average, {p99:.3} in 99 of 100 cases, {most:.3} at most")),
        (
            "gaps between them",
            format!(
                "coefficient of variation {:.2}, index of dispersion {:.2}, distance from an exponential law {:.3}",
                pattern.variation, pattern.dispersion, pattern.distance
            ),
        ),
        ("so they come", shape(pattern)),
    ];
    let asked = observed.answered.map(|Answered { requests, p90, p99 }| {
        ("it answered", format!("{requests} requests of giusto's own (GET /) within {p90:.3} (90 %), {p99:.3} (99 %)"))
    });
    text += "#\n# What was observed:\n";
    for (name, value) in rows.into_iter().chain(asked) {
        let _ = writeln!(text, "#   {name:<18} {value}");
    }
    text += "#\n";
    let blind = format!(
        "An activation is a time from waking up to sleeping again, told by readings {:.3} apart: requests that come \
         while the service is busy belong to the same one, and its own timers count too. {}",
        watched.resolution,
        match observed.answered {
            None => "Response times cannot be observed from outside: what is promised below is a proposal.",
            Some(_) => "What is promised below is a proposal, half as long again as those answers took at least.",
        }
    );
    text + &comment("", &blind)
}

fn shape(pattern: &Pattern) -> String {
    let law = if pattern.exponential { "fits" } else { "does not quite fit" };
    match pattern.shape {
        Shape::Periodic(period) => format!("periodically, every {:.3}", Duration::from_ns(period)),
        Shape::Poisson => format!("at random; a Poisson process {law} (Kolmogorov-Smirnov, 1 %)"),
        Shape::Bursty(batch) => format!("in bursts of about {batch}"),
        Shape::Even => "more evenly than at random, but not periodically; planned as if at random".into(),
    }
}

fn host(observed: &Observed) -> String {
    let (cores, why) = match observed.cores {
        [] | [_] => (format!("{:?}", observed.cores.first().unwrap_or(&0)), "the only one"),
        [_, rest @ ..] => (format!("{rest:?}"), "all but the first, which is left to everything else"),
    };
    format!("hosts:\n  {}: {{cores: {cores}}}    # {why}\n", observed.host)
}

fn adopt(observed: &Observed) -> String {
    match &observed.found.adopt {
        Adopt::Pid(pid) => {
            let stable = match &observed.found.unit {
                Some(unit) => format!("; what lasts is adopt: {{systemd: {unit}}}"),
                None => "; what lasts is adopt: {systemd: UNIT.service}, or start: with its command".into(),
            };
            comment("    ", &format!("A process id changes when the service is started again{stable}."))
                + &format!("    adopt: {{pid: {pid}}}\n")
        }
        Adopt::Systemd(unit) => format!("    adopt: {{systemd: '{unit}'}}\n"),
        Adopt::Cgroup(path) => format!("    adopt: {{cgroup: '{path}'}}\n"),
        other => format!("    # adopt: {other}\n"),
    }
}

fn promise(demand: &Demand, pattern: &Pattern) -> String {
    match demand {
        Demand::Tasks { wcet, period, covers } => {
            let why = format!(
                "One job a period; the greatest execution time is that of {covers} of those observed, and a fifth \
                 more. With more clients than one, write each as a copy: copies: 6."
            );
            comment("    ", &why)
                + &format!("    tasks: [{{name: observed, wcet: {}, period: {}}}]\n", time(*wcet), time(*period))
                + "    # Response times distributed as if a core were its own, on a share of it.\n"
                + "    promise: as-if-alone\n"
        }
        Demand::Arrivals { rate, batch, mean, wcet, covers, p99 } => {
            let batch = if *batch > 1 { format!(", batch: {batch}") } else { String::new() };
            let why = format!(
                "Processor time of a request; the greatest is that of {covers} of the activations observed, and a \
                 fifth more. 'giusto measure execution' tells it request by request."
            );
            let half = Duration::from_ns(p99.ns() / 2);
            let periodic = match pattern.shape {
                Shape::Periodic(_) => comment(
                    "    ",
                    "They come periodically, and not by the main thread alone, which is what a task of a service that \
                     is to be as if alone asks for; so they are planned as if at random, with all threads.",
                ),
                _ => String::new(),
            };
            periodic
                + &format!("    arrivals: {{poisson: {}/s{batch}}}\n", digits(*rate))
                + &comment("    ", &why)
                + &format!("    execution: {{mean: {}, wcet: {}}}\n", time(*mean), time(*wcet))
                + &comment(
                    "    ",
                    "The shortest of 5, 10, 20, 40 ... ms that costs little beyond its load and that the service keeps today, \
                     as far as that was seen: say what you need.",
                )
                + &format!("    promise: {{p90: {}, p99: {}}}\n", time(half), time(*p99))
        }
        Demand::Leftovers { at_least, why } => {
            comment("    ", &format!("No reservation: {why}. Throughput only, with a floor."))
                + &format!("    promise: leftovers\n    at-least: {at_least}%\n")
        }
    }
}

/// How a trial can drive it.
fn load(served: &Result<Served, String>) -> String {
    let (words, line) = match served {
        Ok(Served::Redis(address)) => (
            "How 'giusto run FILE --trial' drives it. It WRITES keys of its own into the service: leave the line \
             out where they may not be there. Fit the number of fields and bytes to your requests.",
            format!("{{redis: {}, fields: 10, value: 8}}", quoted(address)),
        ),
        Ok(Served::Memcached(address)) => (
            "How 'giusto run FILE --trial' drives it. It WRITES keys of its own into the service: leave the line \
             out where they may not be there. Fit the number of bytes to your requests.",
            format!("{{memcached: {}, value: 100}}", quoted(address)),
        ),
        Ok(Served::Http(address)) => (
            "How 'giusto run FILE --trial' drives it: GET of one path. Choose one that costs what your requests cost.",
            format!("{{http: {}, path: /}}", quoted(address)),
        ),
        Err(why) => {
            let words = format!(
                "Giusto cannot drive it by itself, so that 'giusto run FILE --trial' cannot measure it: {why}."
            );
            return comment("    ", &words);
        }
    };
    comment("    ", words) + &format!("    load: {line}\n")
}

fn quoted(address: &std::net::SocketAddr) -> String {
    if address.is_ipv6() {
        format!("'{address}'")
    } else {
        address.to_string()
    }
}

/// A duration as site files have it.
fn time(time: Duration) -> String {
    match time.ns() {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

/// A number in three digits.
fn digits(number: f64) -> String {
    let decimals = (2 - number.max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Sentences as lines of a comment, indented.
fn comment(indent: &str, words: &str) -> String {
    let mut lines = vec![format!("{indent}#")];
    for word in words.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{indent}#"));
        }
        let last = lines.len() - 1;
        lines[last] += &format!(" {word}");
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_site_files_have_them() {
        assert_eq!(
            [48_000, 1_000_000, 1_500, 1_500_000].map(|ns| time(Duration::from_ns(ns))),
            ["48us", "1ms", "1500ns", "1500us"]
        );
        assert_eq!([850.0, 411.53, 4.2, 0.0123, 12_345.6].map(digits), ["850", "412", "4.2", "0.0123", "12346"]);
        let lines = comment("  ", &"word ".repeat(60));
        assert!(lines.lines().all(|line| line.starts_with("  # word") && line.len() <= WIDTH));
    }
}
