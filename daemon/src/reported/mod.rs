//! What services say of their own response times: a histogram that is scraped, or spans that they send.
//!
//! Each service has one thread that asks, or a place that listens; neither takes more memory or time than it is allowed, and what
//! it does not understand it tells ([`Reporter::problem`]).

mod openmetrics;
mod otlp;
mod protobuf;
mod scrape;
mod sink;
mod spans;
mod stage_times;
mod told;
mod traces;

use giusto_measure::passive::Responses;
use giusto_model::Reported;
use otlp::Collector;
use scrape::Scraper;
use spans::OfService;
use std::sync::Arc;
use told::Told;

pub use stage_times::StageTimes;
pub(crate) use traces::{Come, Messages};

/// Takes what one service reports, until it is dropped.
pub(crate) struct Reporter {
    /// How.
    pub(crate) reported: Reported,
    told: Arc<Told>,
    way: Result<Way, String>,
}

enum Way {
    Scraped { _scraper: Scraper },
    Sent { _collector: Collector },
}

impl Reporter {
    /// Begins.
    pub(crate) fn start(reported: &Reported) -> Reporter {
        let told = Arc::new(Told::default());
        let way = match reported {
            Reported::Scrape { from, histogram } => Scraper::start(from.clone(), histogram.clone(), told.clone())
                .map(|scraper| Way::Scraped { _scraper: scraper }),
            Reported::Otlp { at, span } => {
                let sink = Arc::new(OfService { span: span.clone(), told: told.clone() });
                Collector::listen(*at, sink).map(|collector| Way::Sent { _collector: collector })
            }
        };
        if let Err(why) = &way {
            told.is_wrong(why.clone());
        }
        Reporter { reported: reported.clone(), told, way }
    }

    /// Whether it could not begin, as its address is another's; to be tried again.
    pub(crate) fn has_failed(&self) -> bool {
        self.way.is_err()
    }

    /// What it has told so far.
    pub(crate) fn responses(&self) -> Responses {
        let sums = self.told.sums();
        Responses {
            responses: sums.lengths.iter().map(|(&ns, &count)| [ns, count]).collect(),
            answered: sums.count,
            total_ns: sums.total_ns,
            unseen: sums.refused,
            ..Responses::default()
        }
    }

    /// What is wrong now, or that it has told nothing yet.
    pub(crate) fn problem(&self) -> Option<String> {
        let sums = self.told.sums();
        sums.problem.clone().or_else(|| (sums.count == 0).then(|| "it has reported nothing yet".into()))
    }
}
