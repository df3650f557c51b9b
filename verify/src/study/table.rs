//! A table of results: comma-separated values below a line of column names.

use super::error::Error;

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

    /// Where a `column` is of which `who` says something.
    pub(super) fn place(&self, who: &str, table: &str, column: &str) -> Result<usize, Error> {
        self.columns.iter().position(|name| name == column).ok_or_else(|| Error::NoColumn {
            claim: who.into(),
            table: table.into(),
            column: column.into(),
            known: self.columns.join(", "),
        })
    }

    /// The number at `place` of a row.
    pub(super) fn number(&self, table: &str, row: &[String], place: usize) -> Result<f64, Error> {
        match row[place].parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(Error::NoNumber {
                table: table.into(),
                column: self.columns[place].clone(),
                text: row[place].clone(),
            }),
        }
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}
