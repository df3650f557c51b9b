//! The `giusto` command: one module a verb, no logic of its own.
//!
//! Reads the command line, calls the rooms below, prints a table for people or JSON, and ends with the exit code that
//! says what happened. What rooms return is only shown here, never decided.

// They panic where no process reads the output or the disk is full: see `table`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod admission;
mod alone;
mod analyze;
mod args;
mod begin;
mod bucket;
mod carts;
mod certificate;
mod check;
mod contract;
mod coordination;
mod criticality;
mod demo;
mod diff;
mod doctor;
mod explain;
mod failure;
mod generator;
mod given;
mod health;
mod import;
mod import_spans;
mod imported;
mod in_time;
mod init;
mod init_pods;
mod interface;
mod judged;
mod latency;
mod map;
mod measure;
mod measure_path;
mod mode;
mod modes;
mod packets;
mod path;
mod path_trial;
mod paths;
mod place;
mod plan;
mod plane;
mod pods;
mod record;
mod report;
mod response;
mod run;
mod running;
mod simulate;
mod simulated_page;
mod spread;
mod status;
mod study;
mod supply;
mod table;
mod tell;
mod trial;
mod under_manager;
mod vcpus;
mod verify;
mod watch;
mod xen;

use alone::Target;
use args::{Cli, Export, Verb};
use clap::Parser;
use giusto_planner::Engine;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.verb {
        Verb::Demo(args) => demo::demo(&args),
        Verb::Doctor(args) => doctor::doctor(&args),
        Verb::Init(args) => match &args.kubernetes {
            Some(pods) => init_pods::init(&args, pods),
            None => init::init(&args),
        },
        Verb::Check(args) => check::check(&args),
        Verb::Plan(args) => plan::plan(&args),
        Verb::Place => place::place(),
        Verb::Diff(args) => diff::diff(&args),
        Verb::Explain(args) => explain::explain(&args),
        Verb::Simulate(args) => simulate::simulate(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Status(args) if args.watch => watch::watch(),
        Verb::Status(args) => status::status(&args),
        Verb::Record(args) => record::record(&args),
        Verb::Reload(args) => status::reload(&args),
        Verb::Mode(args) => mode::mode(&args),
        Verb::Agent(args) => mode::agent(&args),
        Verb::Restore(args) => run::restore(&args),
        Verb::Measure(verb) => measure::measure(&verb),
        Verb::Verify(args) => verify::verify(&args),
        Verb::Study(verb) => study::study(&verb),
        Verb::Export(Export::Zookeeper(args)) => coordination::zookeeper(&args),
        Verb::Export(Export::Etcd(args)) => coordination::etcd(&args),
        Verb::Export(Export::Nsq(args)) => bucket::nsq(&args),
        Verb::Export(Export::Xen(args)) => xen::xen(&args),
        Verb::Export(Export::Systemd(args)) => alone::export(Target::Systemd, &args),
        Verb::Export(Export::Docker(args)) => alone::export(Target::Containers(Engine::Docker), &args),
        Verb::Export(Export::Podman(args)) => alone::export(Target::Containers(Engine::Podman), &args),
        Verb::Export(Export::Libvirt(args)) => alone::export(Target::Libvirt, &args),
        Verb::Export(Export::Kubevirt(args)) => alone::export(Target::Kubevirt, &args),
        Verb::Export(Export::Kubernetes(args)) => pods::export(&args),
        Verb::Analyze(args) => in_time::in_time(args),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
