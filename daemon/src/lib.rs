//! Composition on a real host: starts or adopts services, enforces a plan with `compute`, keeps the undo journal, and runs
//! trials: service and load together, arm by arm, job records out. The operator's side of it: control socket, status,
//! metrics, reload by difference, logs, the service manager's protocol.
//!
//! Called by the command line (`giusto run`, `giusto restore`, `giusto measure`, `giusto status`, `giusto reload`). Sites and
//! plans of one host flow in; job records, a judgement and the status flow out. It decides no parameter (`planner`) and
//! does no statistics (`verify`).

mod adapt;
mod after_end;
mod apply;
mod backends;
mod calibrate;
mod choice;
mod container;
mod control;
mod control_queue;
mod deployment;
mod doctor;
mod draft;
mod drift;
mod dry_run;
mod enforce;
mod error;
mod facts;
#[cfg(test)]
mod golden;
mod http;
mod http_get;
mod journal;
mod journald;
mod late;
mod listening;
mod live;
mod log;
mod logs;
mod metrics;
mod modal;
mod mode_changes;
mod modes;
mod named;
mod notify;
mod observe;
mod operator;
mod otlp;
mod packets;
mod path_trial;
mod paths;
mod peek;
mod plan_diff;
mod protocol;
mod recording;
mod refused;
mod reported;
mod reservations;
mod response_status;
mod responses;
mod restart;
mod services;
mod signals;
mod slices;
mod source;
mod spawn;
mod spinner;
mod status;
mod supervise;
mod supplies;
mod systemd;
mod trial;
mod undo_entry;
mod vm;
mod watchdog;
mod watched;
mod web;
mod workers;

pub use adapt::{Again, Factors};
pub use calibrate::{calibrate, cost, Calibration, Subject};
pub use control::{ask, Recordings};
pub use control_queue::{Host, Planner};
pub use deployment::Deployment;
pub use doctor::{doctor, Check, Doctor, Standing};
pub use draft::{draft, find, host_name, Answered, Demand, Draft, Found, Observed, Summary};
pub use dry_run::dry_run;
pub use enforce::enforce;
pub use error::Error;
pub use facts::{facts, facts_of, missing};
pub use giusto_network::{LinkStatus, Network};
pub use journal::{Journal, Restored};
pub use late::{Late, LateJob, LateMessage};
pub use log::log;
pub use modal::{begin_with, forget_mode};
pub use modes::{ChangeStatus, ModesStatus, PeerStatus, StepStatus, Wishes};
pub use notify::Notify;
pub use observe::Observer;
pub use operator::{Operator, Report, Settings, Stage};
pub use otlp::OtlpAddress;
pub use path_trial::{path_loads, try_path, PathSlice};
pub use peek::running_plan;
pub use plan_diff::{difference, Change, Layout, Step};
pub use protocol::{Answer, Request, Wish};
pub use recording::{
    write_trace, Drawn, JobSource, RecordWish, RecordedBudget, RecordedLate, RecordedMode, RecordedService,
    RecordedThread, Recording, Sources,
};
pub use refused::Refused;
pub use reported::StageTimes;
pub use response_status::{
    ObservedBy, ObservedStatus, PastStatus, PathStatus, PointStatus, ResponseStatus, StandingStatus, SupplyPastStatus,
    SupplyStatus,
};
pub use services::{Before, Prepare, Running};
pub use signals::Signals;
pub use slices::{Arm, Cause, Next, Options, Removed, Talk, Trial};
pub use status::{
    Adaptation, CoreCriticality, CoreStatus, DemandStatus, OtlpStatus, ServiceState, ServiceStatus, State, Status,
    STATUS_VERSION,
};
pub use trial::{loads, trial, Slice};
pub use watchdog::Watchdog;
pub use web::{plan_page, simulation_page, WebAddress, WebSettings};
