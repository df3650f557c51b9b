//! A table of results: comma-separated values below a line of column names.

use super::Error;

/// A table of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads the table `name`.
    ///
    /// # Errors
    /// [`Error::Table`] for a line with more or fewer fields than columns. O(size).
    pub fn read(name: &str, text: &str) -> Result<Table, Error> {
        let bad = |error: csv::Error| Error::Table { table: name.into(), why: error.to_string() };
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().map_err(bad)?.iter().map(String::from).collect();
        let row = |record: csv::StringRecord| record.iter().map(String::from).collect();
        let rows = reader.records().map(|record| record.map(row)).collect::<Result<_, _>>().map_err(bad)?;
        Ok(Table { columns, rows })
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}
