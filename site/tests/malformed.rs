//! Every file of `malformed/` and `malformed-carts/` is refused with the text beside it, golden and read by a person. `GIUSTO_REWRITE=1`
//! rewrites the texts; review the difference.

use giusto_site::carts::{self, Unit};
use giusto_site::{parse, SiteError};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

fn corpus(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn every_malformed_site_is_refused_with_its_place_and_what_to_do() {
    refused(corpus("malformed", "yaml"), "site.yaml", &|text| parse("site.yaml", text));
}

#[test]
fn every_malformed_file_of_carts_is_refused_with_its_place_and_what_to_do() {
    refused(corpus("malformed-carts", "xml"), "system.xml", &|text| carts::parse("system.xml", text, Unit::Ms));
}

fn refused<T: Debug>(files: Vec<PathBuf>, name: &str, parse: &dyn Fn(&str) -> Result<T, SiteError>) {
    let rewrite = std::env::var_os("GIUSTO_REWRITE").is_some_and(|value| value == "1");
    assert!(files.len() >= 50, "only {} malformed files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let error = match parse(&text) {
            Ok(read) => panic!("{}: accepted: {read:?}", path.display()),
            Err(error) => error,
        };
        let SiteError::Text(located) = &error else { panic!("{}: {error}", path.display()) };
        let shown = format!("{error}\n");
        assert!(shown.starts_with(&format!("{name}:{}:{}: ", located.line, located.column)), "{shown}");
        assert!(!located.found.is_empty() && !located.expected.is_empty(), "{shown}");
        assert_eq!(shown.lines().count(), 4, "{shown}");
        let golden = path.with_extension("txt");
        if rewrite {
            fs::write(&golden, &shown).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != shown {
            wrong.push(format!("{}:\n{shown}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "not as expected (GIUSTO_REWRITE=1 rewrites):\n{}", wrong.join("\n"));
}
