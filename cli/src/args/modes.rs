//! Flags of mode changes.

use clap::Args;
use giusto_model::ChangePolicy;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// A mode of the site; when not given, tell the present one and the last changes
    #[arg(conflicts_with = "service")]
    pub(crate) name: Option<String>,
    /// Change this service to this local mode and leave the others, such as flight=land; may be repeated
    #[arg(long, value_name = "SERVICE=MODE", value_parser = service)]
    pub(crate) service: Vec<(String, String)>,
    /// In another order than the plan says: sequential, batch, greedy or boost
    #[arg(long, value_parser = policy)]
    pub(crate) policy: Option<ChangePolicy>,
    /// Wait until all services have changed, and print what each step took
    #[arg(long)]
    pub(crate) wait: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The agent's file (formats/agent.md)
    pub(crate) file: PathBuf,
    /// Ask the host for this mode, through the agent that runs here
    pub(crate) mode: Option<String>,
}

fn service(text: &str) -> Result<(String, String), String> {
    let (service, mode) = text.split_once('=').ok_or("expected SERVICE=MODE, such as flight=land")?;
    Ok((service.into(), mode.into()))
}

fn policy(text: &str) -> Result<ChangePolicy, String> {
    let names = || ChangePolicy::ALL.iter().map(ChangePolicy::to_string).collect::<Vec<_>>().join(", ");
    let found = ChangePolicy::ALL.iter().find(|policy| policy.to_string() == text);
    found.copied().ok_or_else(|| format!("expected one of {}", names()))
}
