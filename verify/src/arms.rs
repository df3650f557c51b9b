//! What is compared: the runs of an experiment, round by round.

use crate::Sample;
use giusto_model::Prediction;
use serde::Serialize;

/// Runs that were made one soon after the other, so that what drifts slowly (the host's other guests, clocks, caches) is
/// the same for all. `None` where a run was voided: what needs it leaves this round out. Runs should hold about equally
/// many jobs: the chance part of a distance shrinks as they grow.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The service alone on a whole core.
    pub whole_a: Option<Sample>,
    /// The same once more: how far it is from `whole_a` is noise.
    pub whole_b: Option<Sample>,
    /// The core shared without a plan.
    pub unprotected: Option<Sample>,
    /// The core shared as Giusto planned it.
    pub giusto: Option<Sample>,
}

/// All runs of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Arms {
    /// Round by round.
    pub rounds: Vec<Round>,
    /// What the plan predicted.
    pub predicted: Option<Predicted>,
    /// One sentence for every run that was voided because the machine disturbed it.
    pub voided: Vec<String>,
    /// What is known of the runs; decides how they are called.
    pub source: Source,
}

/// Where runs come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A trial: it knows how each run was made.
    #[default]
    Trial,
    /// Files of a reference and of what is to be judged; what was measured is unknown.
    Files,
}

/// A prediction: every job, or the plan's summary of them.
#[derive(Clone, Debug)]
pub enum Predicted {
    /// Simulated response times.
    Sample(Sample),
    /// The percentiles kept in plan.json.
    Percentiles(Prediction),
}

/// Which runs a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// What the plan predicted.
    Predicted,
    /// The service alone on a whole core.
    Whole,
    /// The core shared without a plan.
    Unprotected,
    /// The core shared as Giusto planned it.
    Giusto,
    /// In the place of `Whole` where files are compared.
    Reference,
    /// In the place of `Giusto` where files are compared.
    Measured,
}

impl Arm {
    /// The arm's name in tables and plots.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Predicted => "predicted",
            Arm::Whole => "a whole core",
            Arm::Unprotected => "shared, no plan",
            Arm::Giusto => "shared, Giusto",
            Arm::Reference => "the reference",
            Arm::Measured => "measured",
        }
    }
}

impl Round {
    /// Both whole-core runs, if both count.
    pub(crate) fn whole(&self) -> Option<[&Sample; 2]> {
        Some([self.whole_a.as_ref()?, self.whole_b.as_ref()?])
    }

    /// The runs of `arm` that count.
    fn runs(&self, arm: Arm) -> impl Iterator<Item = &Sample> {
        let [first, second] = match arm {
            Arm::Whole | Arm::Reference => [&self.whole_a, &self.whole_b],
            Arm::Unprotected => [&self.unprotected, &None],
            Arm::Giusto | Arm::Measured => [&self.giusto, &None],
            Arm::Predicted => [&None, &None],
        };
        first.iter().chain(second)
    }
}

impl Arms {
    /// Runs whose rounds are unknown: every two runs of the `reference` make one with the run to be judged, so three
    /// of them make three rounds. That these share runs is known to the resampling; that all were made under the same
    /// conditions must be so.
    pub fn of_files(reference: &[Sample], measured: &Sample) -> Self {
        let pairs = (0..reference.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let round = |(a, b): (usize, usize)| Round {
            whole_a: Some(reference[a].clone()),
            whole_b: Some(reference[b].clone()),
            giusto: Some(measured.clone()),
            ..Round::default()
        };
        let mut rounds: Vec<Round> = pairs.map(round).collect();
        if rounds.is_empty() {
            let whole_a = reference.first().cloned();
            rounds.push(Round { whole_a, giusto: Some(measured.clone()), ..Round::default() });
        }
        Arms { rounds, source: Source::Files, ..Arms::default() }
    }

    /// How the whole-core runs are called.
    pub(crate) fn reference(&self) -> Arm {
        match self.source {
            Source::Trial => Arm::Whole,
            Source::Files => Arm::Reference,
        }
    }

    /// How the runs are called that are judged.
    pub(crate) fn judged(&self) -> Arm {
        match self.source {
            Source::Trial => Arm::Giusto,
            Source::Files => Arm::Measured,
        }
    }

    /// Every run of `arm` once, in the order of the rounds.
    pub(crate) fn runs(&self, arm: Arm) -> Vec<&Sample> {
        if arm == Arm::Predicted {
            return self.predicted_jobs().into_iter().collect();
        }
        let mut runs: Vec<&Sample> = Vec::new();
        for run in self.rounds.iter().flat_map(|round| round.runs(arm)) {
            if !runs.iter().any(|other| other.is_same_run(run)) {
                runs.push(run);
            }
        }
        runs
    }

    /// The rounds in which both whole-core runs and the one of `arm` count: those three.
    pub(crate) fn beside_whole<'a>(&'a self, arm: Arm) -> Vec<[&'a Sample; 3]> {
        let three = |round: &'a Round| {
            let [a, b] = round.whole()?;
            Some([a, b, self.predicted_jobs().filter(|_| arm == Arm::Predicted).or_else(|| round.runs(arm).next())?])
        };
        self.rounds.iter().filter_map(three).collect()
    }

    fn predicted_jobs(&self) -> Option<&Sample> {
        match &self.predicted {
            Some(Predicted::Sample(sample)) => Some(sample),
            _ => None,
        }
    }
}
