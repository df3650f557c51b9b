//! The `giusto` command: one module a verb, no logic of its own.
//!
//! Reads the command line, calls the rooms below, prints a table for people or JSON, and ends with the exit code that
//! says what happened. What rooms return is only shown here, never decided.

// They panic where no process reads the output or the disk is full: see `table`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod admission;
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
mod failure;
mod given;
mod health;
mod import;
mod in_time;
mod init;
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
