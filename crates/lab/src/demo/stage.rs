//! What scenes have to show things with.

use std::{cell::RefCell, io::IsTerminal as _};

use anyhow::Result;
use kube::Client;

use crate::Lab;

/// Where scenes are played.
pub(super) struct Stage<'l> {
    pub(super) lab: &'l Lab,
    pub(super) client: Client,
    in_colour: bool,
    checks: RefCell<Vec<(String, bool)>>,
}

impl<'l> Stage<'l> {
    pub(super) fn new(lab: &'l Lab) -> Result<Self> {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let in_colour = wanted && std::io::stdout().is_terminal();
        Ok(Self { lab, client: lab.client()?, in_colour, checks: RefCell::default() })
    }

    pub(super) fn title(&self, text: &str) {
        println!(
            "\n{}",
            self.paint(
                "1",
                &format!("── {text} {}", "─".repeat(100_usize.saturating_sub(text.chars().count())))
            )
        );
    }

    pub(super) fn say(&self, text: &str) {
        println!("\n{}", self.paint("3", text));
    }

    /// A command that a person would type for what is done here.
    pub(super) fn command(&self, text: &str) {
        println!("\n{}", self.paint("36", &format!("$ {text}")));
    }

    /// Rows in columns; the first row is the head.
    pub(super) fn table(&self, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).filter_map(width).collect();
        for (index, row) in rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = format!("  {}", cells.collect::<Vec<_>>().join("  "));
            println!(
                "{}",
                if index == 0 { self.paint("2", line.trim_end()) } else { line.trim_end().to_owned() }
            );
        }
    }

    /// Something that must hold, with words for it.
    pub(super) fn check(&self, what: &str, holds: bool) {
        let mark = if holds { self.paint("32", "✔ ok  ") } else { self.paint("31", "✖ FAIL") };
        println!("  {mark} {what}");
        self.checks.borrow_mut().push((what.to_owned(), holds));
    }

    pub(super) fn passed(&self) -> usize {
        self.checks.borrow().iter().filter(|(_, holds)| *holds).count()
    }

    pub(super) fn failed(&self) -> Vec<String> {
        self.checks.borrow().iter().filter(|(_, holds)| !holds).map(|(what, _)| what.clone()).collect()
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.in_colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
