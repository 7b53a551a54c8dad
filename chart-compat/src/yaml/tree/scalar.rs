//! Scalars of trees: the choice of style, and the output of each style.

use super::write::{Role, Writer, asked_style, is_break};
use super::{Node, Style};
use crate::yaml::emit::{Analysis, analyze_pretty, escape, stands_for_itself};

impl Writer {
    /// Writes a scalar in its style, or the nearest style that its text allows (`yaml_emitter_select_scalar_style`).
    pub(super) fn scalar(&mut self, node: &Node, role: Role) {
        let text = node.value.as_str();
        let analysis = analyze_pretty(text);
        let simple = role == Role::SimpleKey;
        match self.choose(asked_style(node), text, analysis, simple) {
            Style::Plain => self.plain(text),
            Style::Single => self.single(text),
            Style::Double => self.double(text),
            Style::Literal => self.literal(text),
            Style::Folded => self.folded(text),
        }
    }

    fn choose(&self, asked: Style, text: &str, analysis: Analysis, simple: bool) -> Style {
        let flow = self.flow_level > 0;
        let mut style = if simple && analysis.multiline { Style::Double } else { asked };
        if style == Style::Plain {
            let allowed = if flow {
                !text.is_empty() && analysis.plain && !text.contains([',', '?', '[', ']', '{', '}', ':'])
            } else {
                analysis.plain
            };
            if !allowed || text.is_empty() && (flow || simple) {
                style = Style::Single;
            }
        }
        match style {
            Style::Single if !analysis.single => Style::Double,
            Style::Literal | Style::Folded if !analysis.block || flow || simple => Style::Double,
            style => style,
        }
    }

    fn plain(&mut self, text: &str) {
        if !text.is_empty() {
            if !self.whitespace {
                self.put(' ');
            }
            self.copy(text);
            self.whitespace = false;
        }
        self.indention = false;
    }

    fn single(&mut self, text: &str) {
        self.indicator("'", true, false, false);
        let mut breaks = false;
        for c in text.chars() {
            if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.copy_break(c);
                breaks = true;
                continue;
            }
            if c == ' ' {
                self.put(' ');
                continue;
            }
            if breaks {
                self.write_indent();
            }
            if c == '\'' {
                self.put('\'');
            }
            self.put(c);
            self.indention = false;
            breaks = false;
        }
        self.indicator("'", false, false, false);
        (self.whitespace, self.indention) = (false, false);
    }

    fn double(&mut self, text: &str) {
        self.indicator("\"", true, false, false);
        // If the text starts with a byte order mark, go-yaml treats every character as one.
        let all = text.starts_with('\u{FEFF}');
        for c in text.chars() {
            if all || !stands_for_itself(c) {
                self.copy(&escape(c));
            } else {
                self.put(c);
            }
        }
        self.indicator("\"", false, false, false);
        (self.whitespace, self.indention) = (false, false);
    }

    /// Writes the indicator of a block scalar with its hints, and the line comment.
    fn block_head(&mut self, indicator: &str, text: &str) {
        self.indicator(indicator, true, false, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false, false);
        }
        let mut end = text.chars().rev().map(is_break);
        let chomp = match (end.next(), end.next()) {
            (Some(true), None | Some(true)) => "+",
            (Some(true), Some(false)) => "",
            _ => "-",
        };
        self.indicator(chomp, false, false, false);
        self.write_line(true);
        self.whitespace = true;
    }

    fn literal(&mut self, text: &str) {
        self.block_head("|", text);
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.copy_break(c);
                breaks = true;
                continue;
            }
            if breaks {
                self.write_indent();
            }
            self.put(c);
            self.indention = false;
            breaks = false;
        }
    }

    fn folded(&mut self, text: &str) {
        self.block_head(">", text);
        // go-yaml checks the start of the text, where it should check the next line.
        let starts_blank = text.chars().find(|c| !is_break(*c)).is_none_or(|c| matches!(c, ' ' | '\t'));
        let (mut breaks, mut blank) = (true, true);
        for c in text.chars() {
            if is_break(c) {
                if !breaks && !blank && c == '\n' && !starts_blank {
                    self.put_break();
                }
                self.copy_break(c);
                breaks = true;
                continue;
            }
            if breaks {
                self.write_indent();
                blank = matches!(c, ' ' | '\t');
            }
            self.put(c);
            self.indention = false;
            breaks = false;
        }
    }
}
