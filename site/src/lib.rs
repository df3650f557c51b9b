//! Reads a site file (YAML, `formats/site.md`) into the words of `model`; reads and writes the field's exchange format for
//! trees of components ([`carts`]).
//!
//! `cli` calls it for every verb that takes a site. Text comes in; a checked [`Site`] or the first error goes out. An
//! error names file, line and column, shows the line and says what was expected: exit code 2. Keys that the design knows
//! and that are not built yet are errors of their own ("not built yet"), so that nothing written is silently ignored.
//!
//! It does not decide whether a site fits its hosts (`planner`), nor whether programs, processes, cgroups or cores exist
//! (`compute`, `daemon`).

mod adapt;
mod adopt;
mod adopting;
pub mod agent;
mod arrivals;
pub mod carts;
mod coordination;
mod copies;
mod cores;
mod criticality;
mod despite;
mod error;
mod fields;
mod file;
mod host;
mod links;
mod load;
mod locals;
mod modes;
mod network;
mod observe;
mod paths;
mod place;
mod pods;
mod process;
mod promises;
mod service;
mod source;
mod start;
mod suggest;
mod task;
mod topic;
mod tree;
mod value;
mod vcpus;
mod xen;

pub use adopting::adopting;
pub use arrivals::{read_arrivals, TraceError};
pub use error::{Located, SiteError};
pub use file::{LARGEST_FILE, LARGEST_SITE};
pub use place::place;
pub use pods::{pod_keys, PodKeys};

use error::Fault;
use fields::Grammar;
use file::Form;
use giusto_model::Site;
use source::Source;
use std::path::Path;
use tree::Node;

const FORM: Form =
    Form { what: "a site file", example: "sites/walk.yaml", like: "a few lines of YAML", largest: LARGEST_SITE };

const SITE: Grammar = Grammar {
    what: "a site",
    keys: &["giusto", "hosts", "services", "modes", "mode-changes", "topics", "coordination", "links", "paths"],
    later: &[],
};

/// Reads the site file at `path`, of at most [`LARGEST_SITE`] bytes.
///
/// # Errors
/// [`SiteError::File`] if it cannot be read, [`SiteError::Text`] if it is not a site.
pub fn read(path: &Path) -> Result<Site, SiteError> {
    parse(&path.display().to_string(), &text(path)?)
}

/// The text of the site file at `path`, for [`parse`].
///
/// # Errors
/// As [`read`], but for what is wrong in the text.
pub fn text(path: &Path) -> Result<String, SiteError> {
    FORM.read(path).map(|(_, text)| text)
}

/// Reads a site from `text`; `name` stands for the file in errors, and the files that it names are looked for in the
/// same folder. O(n) for n bytes of text with ordinary keys.
///
/// # Errors
/// [`SiteError::Text`] for the first thing in it that makes no sense; [`SiteError::File`] beyond [`LARGEST_SITE`].
pub fn parse(name: &str, text: &str) -> Result<Site, SiteError> {
    FORM.bounded(name, text.len())?;
    let source = Source::new(name, text);
    site(&source).map_err(|fault| source.error(fault))
}

fn site(source: &Source<'_>) -> Result<Site, Fault> {
    source.check()?;
    let root = tree::read(source)?;
    let first = root.entries().and_then(|entries| entries.first());
    if first.is_none_or(|(key, _)| key.text != "giusto") {
        let at = first.map_or(root.span, |(key, _)| key.span);
        return Err(Fault::new(at, "a site file starts with its version", "expected the first line to be 'giusto: 1'"));
    }
    let fields = SITE.read(&root, root.span)?;
    version(fields.need("giusto", "giusto: 1")?)?;
    let hosts = host::read_all(fields.need("hosts", "hosts: {edge-1: {cores: 0-3}}")?)?;
    let services = fields.need("services", "services: {batch: {start: make, promise: leftovers}}")?;
    let base = Path::new(source.name()).parent().unwrap_or(Path::new(""));
    let mut services = service::read_all(services, &hosts, base)?;
    xen::add_dom0(&mut services, &hosts, &fields)?;
    let modes = modes::read(&fields, &mut services)?;
    let coordination = fields.get("coordination").map(|node| coordination::read(node, &hosts)).transpose()?;
    let topics = fields.get("topics").map_or(Ok(Vec::new()), |node| topic::read_all(node, &hosts, &services))?;
    let links = links::read(&fields, &hosts, base)?;
    let paths = paths::read(
        &fields,
        links,
        &paths::Known { services: &services, topics: &topics, coordination: coordination.as_ref() },
    )?;
    Ok(Site { hosts, services, topics, coordination, paths, modes })
}

fn version(node: &Node) -> Result<(), Fault> {
    let expected = "expected 'giusto: 1', the only version there is";
    match value::text(node, expected)? {
        "1" => Ok(()),
        other => Err(node.fault(format!("version '{}' is unknown to this Giusto", suggest::shown(other)), expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../formats/site.md");

    #[test]
    fn the_page_of_the_format_has_a_row_for_every_key_and_names_all_that_is_not_built_yet() {
        for grammar in [
            &SITE,
            &host::HOST,
            &xen::DOM0,
            &service::SERVICE,
            &promises::supply::PROMISE,
            &promises::percentiles::ARRIVALS,
            &promises::percentiles::EXECUTION,
            &task::TASK,
            &load::LOAD,
            &adopt::ADOPT,
            &coordination::COORDINATION,
            &coordination::ETCD,
            &coordination::ETCD_MEASURED,
            &coordination::PROMISE,
            &coordination::MEASURED,
            &topic::TOPIC,
            &topic::BUCKET,
            &topic::MEASURED,
            &network::HOST,
            &network::UPLINK,
            &network::VIF,
            &network::RECEIVE,
            &links::LINK,
            &despite::DESPITE,
            &paths::PATH,
            &paths::PATH_LOAD,
            &paths::OBSERVE,
            &paths::SOURCE,
            &paths::STAGE,
            &locals::LOCAL,
            &locals::AGENT,
            &modes::CHANGES,
        ] {
            for key in grammar.keys {
                assert!(PAGE.contains(&format!("\n| `{key}` |")), "{}: {key}", grammar.what);
            }
            for (key, _) in grammar.later {
                assert!(PAGE.contains(&format!("`{key}`")), "{}: {key}", grammar.what);
            }
        }
    }

    #[test]
    fn the_example_on_the_page_is_a_site() {
        let example = PAGE.split("```").find_map(|part| part.strip_prefix("yaml\n")).expect("an example");
        parse("formats/site.md", example).unwrap_or_else(|error| panic!("{error}"));
    }
}
