//! A study's figures, drawn from its tables.

use super::{Error, Figure, Study, Table};
use crate::{curves_svg, Line, Panel};
use std::collections::BTreeMap;

/// A figure as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Of its file, without `.svg`.
    pub name: String,
    /// What is drawn over what.
    pub title: String,
    /// All panels in one drawing (SVG).
    pub svg: String,
    /// Each panel by itself, for pages that give each the room there is.
    pub panels: Vec<String>,
}

/// The figures of `study`.
///
/// A panel for every combination of values in `panels`, in it a line for every combination in `lines`, both in the order of the
/// table. Where several rows of a line have the same place `across` (one of each set), their mean is drawn.
///
/// # Errors
/// A table, column or number that is not there, or a figure of no row. O(rows · lines) a figure.
pub fn figures(study: &Study, tables: &BTreeMap<String, Table>) -> Result<Vec<Drawn>, Error> {
    let drawn = |figure: &Figure| {
        let table = super::named(&figure.name, &figure.table, tables)?;
        let panels = panels(figure, table)?;
        Ok(Drawn {
            name: figure.name.clone(),
            title: format!("{} over {}", figure.up.says, figure.across.says),
            svg: curves_svg(&panels),
            panels: panels.iter().map(|panel| curves_svg(std::slice::from_ref(panel))).collect(),
        })
    };
    study.figure.iter().map(drawn).collect()
}

fn panels(figure: &Figure, table: &Table) -> Result<Vec<Panel>, Error> {
    let place = |column: &String| table.place(&figure.name, &figure.table, column);
    let places = |columns: &[String]| columns.iter().map(place).collect::<Result<Vec<_>, _>>();
    let (of_panel, of_line) = (places(&figure.panels)?, places(&figure.lines)?);
    let (across, up) = (place(&figure.across.column)?, place(&figure.up.column)?);
    let wanted = figure.r#where.iter().map(|(column, values)| Ok((place(column)?, values)));
    let wanted = wanted.collect::<Result<Vec<_>, Error>>()?;
    let mut found: Vec<(String, Vec<(String, Points)>)> = Vec::new();
    for row in table.rows().iter().filter(|row| wanted.iter().all(|(at, values)| values.contains(&row[*at]))) {
        // A number alone does not say what it is.
        let line = figure.lines.iter().zip(&of_line).map(|(name, &at)| match row[at].parse::<f64>() {
            Ok(_) => format!("{} {}", name.replace('_', " "), row[at]),
            Err(_) => row[at].clone(),
        });
        let titles = figure.panels.iter().zip(&of_panel).map(|(name, &at)| format!("{name} {}", row[at]));
        let lines = of_named(&mut found, titles.collect::<Vec<_>>().join(", "));
        let point = [table.number(&figure.table, row, across)?, table.number(&figure.table, row, up)?];
        of_named(lines, line.collect::<Vec<_>>().join(" ")).add(point);
    }
    if found.is_empty() {
        let (claim, table) = (figure.name.clone(), figure.table.clone());
        return Err(Error::NoRow { claim, table, of: String::new() });
    }
    let panel = |(title, lines): (String, Vec<(String, Points)>)| Panel {
        title,
        across: figure.across.says.clone(),
        up: figure.up.says.clone(),
        logarithmic: false,
        top: None,
        lines: lines.into_iter().map(|(name, points)| Line { name, points: points.means(), limit: false }).collect(),
    };
    Ok(found.into_iter().map(panel).collect())
}

/// What is called so, which is added where there is none yet.
fn of_named<T: Default>(all: &mut Vec<(String, T)>, name: String) -> &mut T {
    let at = all.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
        all.push((name, T::default()));
        all.len() - 1
    });
    &mut all[at].1
}

/// Where, and the sum and number of what is there.
#[derive(Default)]
struct Points(Vec<(f64, f64, f64)>);

impl Points {
    fn add(&mut self, [across, up]: [f64; 2]) {
        match self.0.iter_mut().find(|(at, ..)| *at == across) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + up, *count + 1.0),
            None => self.0.push((across, up, 1.0)),
        }
    }

    fn means(mut self) -> Vec<[f64; 2]> {
        self.0.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        self.0.into_iter().map(|(at, sum, count)| [at, sum / count]).collect()
    }
}
