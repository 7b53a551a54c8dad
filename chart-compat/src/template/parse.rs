//! The parser (`text/template/parse/parse.go`). Resolves variables to slots and functions to their code.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::ast::{
    Arg, Call, Control, Decl, Fields, Node, Pipe, Pos, Span, Template, Term, Unquoted, commands,
};
use super::error::{Error, Frame, Source};
use super::func::Funcs;
use super::lex::{Kind, Lexer, Token};
use super::number;
use crate::go::strconv;

/// Maximal nesting of parentheses and control structures.
const MAX_DEPTH: usize = 10_000;
/// The memory of a syntax tree for each token of its text, at most on average, in bytes.
const TOKEN: usize = 64;

/// Parses a text under `name`. Returns the template of that name and those that the text defines.
///
/// # Errors
/// Go's parse error, `template: NAME:LINE: …`.
pub fn parse(name: &str, text: &Bytes, funcs: &Funcs) -> Result<Vec<Template>, Error> {
    let mut left = usize::MAX;
    parse_within(name, text, funcs, &mut left)
}

/// As [`parse`]; takes the memory of the syntax tree, in bytes, from what is left. If nothing is, that is why it failed.
///
/// # Errors
/// As [`parse`], or the tree takes more than is left.
pub fn parse_within(
    name: &str,
    text: &Bytes,
    funcs: &Funcs,
    left: &mut usize,
) -> Result<Vec<Template>, Error> {
    let mut parser = Parser {
        left,
        name,
        text,
        lexer: Lexer::new(text),
        funcs,
        tokens: Vec::with_capacity(4),
        last: 0,
        action: None,
        vars: vec![None],
        pending: Vec::new(),
        slots: 1,
        range_depth: 0,
        depth: 0,
        nodes: Vec::new(),
        args: Vec::new(),
        done: Vec::new(),
        defined: FxHashMap::default(),
        file: name.into(),
        shared: text.clone(),
    };
    let root = parser.top()?;
    let slots = parser.slots;
    parser.add(name.into(), root, slots)?;
    Ok(parser.done)
}

/// The name under which `tpl` parses its text.
pub const TPL: &str = "gotpl";

/// Placeholder name of a file whose name is not known yet; no template can define this name.
pub const UNNAMED: &str = "\u{10ffff}";

/// Gives templates that were parsed as [`UNNAMED`] the name of their file.
#[must_use]
pub fn named(mut templates: Vec<Template>, name: &str) -> Vec<Template> {
    let file: Arc<str> = name.into();
    for t in &mut templates {
        t.file = Arc::clone(&file);
        if &*t.name == UNNAMED {
            t.name = name.into();
            t.whole = true;
        }
    }
    templates
}

struct Parser<'t> {
    name: &'t str,
    text: &'t [u8],
    lexer: Lexer<'t>,
    funcs: &'t Funcs,
    /// Tokens put back, the next one last.
    tokens: Vec<Token>,
    /// Start of the token in the first slot of Go's parser: Go reports errors at its line.
    last: Pos,
    /// Start of the current action.
    action: Option<Pos>,
    /// The variables in scope, `$` first.
    vars: Vec<Option<Span>>,
    /// Variables without a value: those of pipelines being parsed, and undeclared ones that are assigned to.
    pending: Vec<Span>,
    slots: usize,
    range_depth: usize,
    depth: usize,
    /// The nodes of the lists being parsed, the innermost last. A finished list moves to an allocation of its exact size.
    nodes: Vec<Node>,
    /// The same for the arguments of commands.
    args: Vec<Arg>,
    done: Vec<Template>,
    /// Their indexes, by name.
    defined: FxHashMap<Box<str>, usize>,
    file: Arc<str>,
    shared: Bytes,
    /// What is left of the memory for syntax trees.
    left: &'t mut usize,
}

enum Item {
    Node(Node),
    End,
    Else,
}

type Parsed<T> = Result<T, Error>;

/// Whether a list consists of white space only (`IsEmptyTree`).
fn blank(list: &[Node], text: &[u8]) -> bool {
    list.iter().all(|n| matches!(n, Node::Text(t) if t.of(text).trim_ascii().is_empty()))
}

impl<'t> Parser<'t> {
    #[inline]
    fn next(&mut self) -> Token {
        match self.tokens.pop() {
            Some(t) => t,
            None => self.read(),
        }
    }

    #[inline(never)]
    fn read(&mut self) -> Token {
        let t = self.lexer.next_token();
        self.last = t.span.start;
        let text = if t.kind == Kind::Text { 0 } else { t.span.end.saturating_sub(t.span.start) as usize };
        *self.left = self.left.saturating_sub(TOKEN + text);
        if *self.left == 0 {
            self.lexer.error = Some("its syntax tree takes more memory than is left".to_owned());
            return Token { kind: Kind::Error, ..t };
        }
        t
    }

    fn back(&mut self, token: Token) {
        self.tokens.push(token);
    }

    fn peek(&mut self) -> Kind {
        if let Some(t) = self.tokens.last() {
            return t.kind;
        }
        let t = self.next();
        self.back(t);
        t.kind
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let t = self.next();
            if t.kind != Kind::Space {
                return t;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        if let Some(t) = self.tokens.last().filter(|t| t.kind != Kind::Space) {
            return *t;
        }
        let t = self.next_non_space();
        self.back(t);
        t
    }

    fn val(&self, t: Token) -> &'t [u8] {
        t.span.of(self.text)
    }

    fn str(&self, t: Token) -> Cow<'t, str> {
        String::from_utf8_lossy(self.val(t))
    }

    /// The line of a position, from 1.
    fn line(&self, pos: Pos) -> usize {
        1 + memchr::memchr_iter(b'\n', Span { start: 0, end: pos }.of(self.text)).count()
    }

    fn error(&self, message: &str) -> Error {
        let line = self.line(self.last);
        let frame = Frame {
            file: self.name.to_owned(),
            line,
            column: 0,
            template: String::new(),
            node: String::new(),
            source: Source(self.shared.clone()),
            message: message.to_owned(),
            used: Vec::new(),
            traced: true,
        };
        Error::parse(format!("template: {}:{line}: {message}", self.name), frame)
    }

    fn show(&self, t: Token) -> String {
        let val = self.str(t);
        match t.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.lexer.error.clone().unwrap_or_default(),
            Kind::Dot
            | Kind::Block
            | Kind::Break
            | Kind::Continue
            | Kind::Define
            | Kind::Else
            | Kind::End
            | Kind::If
            | Kind::Nil
            | Kind::Range
            | Kind::Template
            | Kind::With => format!("<{val}>"),
            _ if val.len() > 10 => {
                let cut: String = val.chars().take(10).collect();
                format!("{}...", strconv::quote(cut.as_bytes()))
            }
            _ => strconv::quote(val.as_bytes()),
        }
    }

    fn unexpected(&self, t: Token, context: &str) -> Error {
        if t.kind == Kind::Error {
            let text = self.show(t);
            let mut extra = String::new();
            if let Some(line) = self.action.map(|p| self.line(p)).filter(|l| *l != self.line(t.span.start)) {
                let inside = if text.ends_with(" action") { "" } else { " in action" };
                extra = format!("{inside} started at {}:{line}", self.name);
            }
            return self.error(&format!("{text}{extra}"));
        }
        self.error(&format!("unexpected {} in {context}", self.show(t)))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token> {
        let t = self.next_non_space();
        if t.kind == kind { Ok(t) } else { Err(self.unexpected(t, context)) }
    }

    fn top(&mut self) -> Parsed<Box<[Node]>> {
        let from = self.nodes.len();
        while self.peek() != Kind::Eof {
            if self.peek() == Kind::LeftDelim {
                let delim = self.next();
                let after = self.next_non_space();
                if after.kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.back(after);
                self.back(delim);
            }
            match self.text_or_action()? {
                Item::Node(n) => self.nodes.push(n),
                Item::End => return Err(self.error("unexpected {{end}}")),
                Item::Else => return Err(self.error("unexpected {{else}}")),
            }
        }
        Ok(self.list(from))
    }

    /// Takes the nodes parsed since index `from` as a list.
    fn list(&mut self, from: usize) -> Box<[Node]> {
        self.nodes.split_off(from).into_boxed_slice()
    }

    /// Runs `body` with a new variable scope. Returns its result and its number of slots.
    fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<(T, usize)> {
        let vars = std::mem::replace(&mut self.vars, vec![None]);
        let pending = std::mem::take(&mut self.pending);
        let slots = std::mem::replace(&mut self.slots, 1);
        let ranges = std::mem::take(&mut self.range_depth);
        let action = self.action.take();
        let result = body(self);
        self.vars = vars;
        self.pending = pending;
        self.range_depth = ranges;
        self.action = action;
        let used = std::mem::replace(&mut self.slots, slots);
        result.map(|r| (r, used))
    }

    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        let ((name, list), slots) = self.scoped(|p| {
            let t = p.next_non_space();
            let name = p.template_name(t, CONTEXT)?;
            p.expect(Kind::RightDelim, CONTEXT)?;
            let (list, end) = p.item_list()?;
            if matches!(end, Item::Else) {
                return Err(p.error("unexpected {{else}} in define clause"));
            }
            Ok((name, list))
        })?;
        self.add(name, list, slots)
    }

    fn add(&mut self, name: Box<str>, root: Box<[Node]>, slots: usize) -> Parsed<()> {
        let blank = blank(&root, self.text);
        let whole = *name == *self.name && self.name != TPL;
        let (file, root) = (Arc::clone(&self.file), root.into());
        let new = Template { name, file, text: self.shared.clone(), root, slots, blank, whole };
        match self.defined.get(&new.name).and_then(|at| self.done.get_mut(*at)) {
            None => {
                self.defined.insert(new.name.clone(), self.done.len());
                self.done.push(new);
            }
            Some(old) if old.blank => *old = new,
            Some(_) if blank => {}
            Some(_) => {
                let text = format!(
                    "template: multiple definition of template {}",
                    strconv::quote(new.name.as_bytes())
                );
                return Err(self.error(&text));
            }
        }
        Ok(())
    }

    fn item_list(&mut self) -> Parsed<(Box<[Node]>, Item)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("max control structure depth exceeded"));
        }
        let from = self.nodes.len();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(n) => self.nodes.push(n),
                end => {
                    self.depth -= 1;
                    return Ok((self.list(from), end));
                }
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn text_or_action(&mut self) -> Parsed<Item> {
        let t = self.next_non_space();
        match t.kind {
            Kind::Text => Ok(Item::Node(Node::Text(t.span))),
            Kind::LeftDelim => {
                self.action = Some(t.span.start);
                let item = stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.action());
                self.action = None;
                item
            }
            _ => Err(self.unexpected(t, "input")),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let t = self.next_non_space();
        Ok(match t.kind {
            Kind::Block => Item::Node(self.block()?),
            Kind::Break | Kind::Continue => {
                let word = if t.kind == Kind::Break { "{{break}}" } else { "{{continue}}" };
                let end = self.next_non_space();
                if end.kind != Kind::RightDelim {
                    return Err(self.unexpected(end, word));
                }
                if self.range_depth == 0 {
                    return Err(self.error(&format!("{word} outside {{{{range}}}}")));
                }
                let at = t.span.start;
                Item::Node(if t.kind == Kind::Break { Node::Break(at) } else { Node::Continue(at) })
            }
            Kind::Else => {
                let next = self.peek_non_space();
                if !matches!(next.kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                Item::Else
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                Item::End
            }
            Kind::If => Item::Node(Node::If(self.control("if")?)),
            Kind::Range => Item::Node(Node::Range(self.control("range")?)),
            Kind::With => Item::Node(Node::With(self.control("with")?)),
            Kind::Template => Item::Node(self.template()?),
            _ => {
                self.back(t);
                Item::Node(Node::Action(self.pipeline("command", Kind::RightDelim)?))
            }
        })
    }

    fn control(&mut self, context: &str) -> Parsed<Box<Control>> {
        let (mark, pending) = (self.vars.len(), self.pending.len());
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        let range = usize::from(context == "range");
        self.range_depth += range;
        let inside = self.vars.len();
        let (list, end) = self.item_list()?;
        self.range_depth -= range;
        let mut otherwise = None;
        if matches!(end, Item::Else) {
            // Go's parser keeps variables of the list in scope after `else`, but they have no value there because the list did
            // not run.
            let declared = self.vars.drain(inside..);
            self.pending.extend(declared.flatten());
            let next = self.peek();
            if context == "if" && next == Kind::If {
                self.next();
                otherwise = Some(Box::from([Node::If(self.nested("if")?)]));
            } else if context == "with" && next == Kind::With {
                self.next();
                otherwise = Some(Box::from([Node::With(self.nested("with")?)]));
            } else {
                let (list, end) = self.item_list()?;
                if matches!(end, Item::Else) {
                    return Err(self.error("expected end; found {{else}}"));
                }
                otherwise = Some(list);
            }
        }
        self.vars.truncate(mark);
        self.pending.truncate(pending);
        Ok(Box::new(Control { pos: pipe.pos, pipe, list, otherwise }))
    }

    /// An `else if` or `else with`. Long chains nest deeply, so the stack grows on demand.
    fn nested(&mut self, context: &str) -> Parsed<Box<Control>> {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.control(context))
    }

    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let t = self.next_non_space();
        let name = self.template_name(t, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        // Go's parser of the outer template reports this error, at the position it has reached.
        let last = self.last;
        let (list, slots) = self.scoped(|p| {
            let (list, end) = p.item_list()?;
            if matches!(end, Item::Else) {
                p.last = last;
                return Err(p.error("unexpected {{else}} in block clause"));
            }
            Ok(list)
        })?;
        self.add(name.clone(), list, slots)?;
        Ok(Node::Template(Box::new(Call { pos: t.span.start, name, pipe: Some(pipe) })))
    }

    fn template(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let t = self.next_non_space();
        let name = self.template_name(t, CONTEXT)?;
        let next = self.next_non_space();
        let mut pipe = None;
        if next.kind != Kind::RightDelim {
            self.back(next);
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Node::Template(Box::new(Call { pos: t.span.start, name, pipe })))
    }

    fn template_name(&mut self, t: Token, context: &str) -> Parsed<Box<str>> {
        match t.kind {
            Kind::String | Kind::RawString => {
                let own = self.unquoted(self.val(t))?;
                let bytes = Term::string(t.span, own.as_deref(), self.text);
                Ok(String::from_utf8_lossy(bytes).into())
            }
            _ => Err(self.unexpected(t, context)),
        }
    }

    /// The slot of a declared or assigned variable.
    fn declare(&mut self, name: Span, assign: bool) -> Option<usize> {
        if assign {
            return self.slot(name);
        }
        self.vars.push(Some(name));
        self.slots = self.slots.max(self.vars.len());
        Some(self.vars.len() - 1)
    }

    /// The slot of a variable in scope.
    fn slot(&self, name: Span) -> Option<usize> {
        let wanted = name.of(self.text);
        self.vars.iter().rposition(|v| v.map_or(wanted == b"$", |v| v.of(self.text) == wanted))
    }

    /// Reads the variables that a pipeline sets. Returns whether it assigns to them.
    fn declarations(&mut self, declared: &mut Vec<Decl>, context: &str) -> Parsed<bool> {
        loop {
            let v = self.peek_non_space();
            if v.kind != Kind::Variable {
                return Ok(false);
            }
            self.next();
            let after = self.next();
            let next = if after.kind == Kind::Space { self.next_non_space() } else { after };
            let name = v.span;
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    declared.push(Decl { name, slot: None });
                    return Ok(next.kind == Kind::Assign);
                }
                Kind::Char if self.val(next) == b"," => {
                    declared.push(Decl { name, slot: None });
                    if context == "range" && declared.len() < 2 {
                        match self.peek_non_space().kind {
                            Kind::Variable | Kind::RightDelim | Kind::RightParen => continue,
                            _ => return Err(self.error("range can only initialize variables")),
                        }
                    }
                    return Err(self.error(&format!("too many declarations in {context}")));
                }
                _ => {
                    self.back(next);
                    if after.kind == Kind::Space {
                        self.back(after);
                    }
                    self.back(v);
                    return Ok(false);
                }
            }
        }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let first = self.peek_non_space();
        let mut decl = Vec::new();
        let assign = self.declarations(&mut decl, context)?;
        let pending = self.pending.len();
        self.pending.extend(decl.iter().map(|d| d.name));
        let from = self.args.len();
        loop {
            let t = self.next_non_space();
            match t.kind {
                k if k == end => {
                    self.check_pipeline(from, context)?;
                    // Declare them only now: inside the pipeline their names still refer to the variables they shadow.
                    self.pending.truncate(pending);
                    for decl in &mut decl {
                        decl.slot = self.declare(decl.name, assign).and_then(|s| u32::try_from(s).ok());
                        if decl.slot.is_none() {
                            // Go's parser accepts later uses of an assigned variable.
                            self.pending.push(decl.name);
                        }
                    }
                    let args = self.args.split_off(from).into_boxed_slice();
                    return Ok(Pipe::new(first.span.start, assign, decl, args));
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back(t);
                    self.command()?;
                }
                _ => return Err(self.unexpected(t, context)),
            }
        }
    }

    /// Checks the commands whose arguments were parsed since index `from`.
    fn check_pipeline(&self, from: usize, context: &str) -> Parsed<()> {
        let args = &self.args[from..];
        if args.is_empty() {
            return Err(self.error(&format!("missing value for {context}")));
        }
        for (i, command) in commands(args).enumerate().skip(1) {
            let first = command.first().map(|a| &a.term);
            if let Some(
                Term::Bool(_)
                | Term::Dot
                | Term::Nil
                | Term::Number(_)
                | Term::Small { .. }
                | Term::String { .. },
            ) = first
            {
                return Err(self.error(&format!("non executable command in pipeline stage {}", i + 1)));
            }
        }
        Ok(())
    }

    /// Parses a command's arguments.
    fn command(&mut self) -> Parsed<()> {
        let from = self.args.len();
        loop {
            self.peek_non_space();
            if let Some(arg) = self.operand()? {
                self.args.push(arg);
            }
            let t = self.next();
            match t.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.back(t),
                Kind::Pipe => {}
                _ => return Err(self.unexpected(t, "operand")),
            }
            break;
        }
        match self.args.get_mut(from) {
            Some(first) => first.first = true,
            None => return Err(self.error("empty command")),
        }
        Ok(())
    }

    /// A field and the fields that follow it. Go sets the position of such a chain to its second field.
    fn fields(&mut self, first: Token) -> Arg {
        let (mut pos, mut fields) = (first.span.start, first.span);
        if self.tokens.is_empty() {
            while let Some(span) = self.lexer.plain_field() {
                if fields == first.span {
                    pos = span.start;
                }
                fields.end = span.end;
                self.last = span.start;
            }
        }
        while self.peek() == Kind::Field {
            let t = self.next();
            if fields == first.span {
                pos = t.span.start;
            }
            fields.end = t.span.end;
        }
        Arg { pos, first: false, term: Term::Field(Fields(fields)) }
    }

    fn operand(&mut self) -> Parsed<Option<Arg>> {
        let Some(arg) = self.term()? else { return Ok(None) };
        if self.peek() != Kind::Field {
            return Ok(Some(arg));
        }
        let mut fields = self.next().span;
        while self.peek() == Kind::Field {
            fields.end = self.next().span.end;
        }
        let (pos, end) = (fields.start, fields.end);
        let term = match arg.term {
            Term::Unset { name, .. } => Term::Unset { name, end },
            Term::Variable { name, slot, .. } => Term::Variable { name, slot, end },
            Term::Bool(_)
            | Term::String { .. }
            | Term::Number(_)
            | Term::Small { .. }
            | Term::Nil
            | Term::Dot => {
                let text = strconv::quote(arg.text(self.text).as_bytes());
                return Err(self.error(&format!("unexpected . after term {text}")));
            }
            _ => Term::Chain { node: Box::new(arg), fields: Fields(fields) },
        };
        Ok(Some(Arg { pos, first: false, term }))
    }

    /// The value of a string constant; `None` if it equals the text between the quotes.
    fn unquoted(&self, quoted: &[u8]) -> Parsed<Option<Box<Unquoted>>> {
        // Most strings do: interpreted ones without an escape, raw ones without a carriage return.
        let special = if quoted.first() == Some(&b'`') { b'\r' } else { b'\\' };
        let plain =
            memchr::memchr(special, quoted).is_none() && (quoted.first() != Some(&b'"') || quoted.is_ascii());
        if plain {
            return Ok(None);
        }
        let own = number::unquote(quoted).ok_or_else(|| self.error("invalid syntax"))?;
        Ok(Some(Box::new(Unquoted(own.into_boxed_slice()))))
    }

    fn term(&mut self) -> Parsed<Option<Arg>> {
        let t = self.next_non_space();
        let term = match t.kind {
            Kind::Identifier => {
                let name = self.val(t);
                let Some(f) = std::str::from_utf8(name).ok().and_then(|name| self.funcs.get(name)) else {
                    let text = strconv::quote(self.str(t).as_bytes());
                    return Err(self.error(&format!("function {text} not defined")));
                };
                Term::Function(f)
            }
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable => {
                let slot = self.slot(t.span).and_then(|s| u32::try_from(s).ok());
                let Some(slot) = slot else {
                    let name = self.val(t);
                    if self.pending.iter().any(|v| v.of(self.text) == name) {
                        let term = Term::Unset { name: t.span, end: t.span.end };
                        return Ok(Some(Arg { pos: t.span.start, first: false, term }));
                    }
                    let text = strconv::quote(name);
                    return Err(self.error(&format!("undefined variable {text}")));
                };
                Term::Variable { name: t.span, slot, end: t.span.end }
            }
            Kind::Field => return Ok(Some(self.fields(t))),
            Kind::Bool => Term::Bool(self.val(t) == b"true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                if let Some(value) = number::small(self.val(t)) {
                    let term = Term::Small { text: t.span, value };
                    return Ok(Some(Arg { pos: t.span.start, first: false, term }));
                }
                let number = number::number(&self.str(t), t.kind == Kind::CharConstant);
                Term::Number(Box::new(number.map_err(|e| self.error(&e))?))
            }
            Kind::LeftParen => {
                if self.depth >= MAX_DEPTH {
                    return Err(self.error("max expression depth exceeded"));
                }
                self.depth += 1;
                let pipe = stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
                    self.pipeline("parenthesized pipeline", Kind::RightParen)
                })?;
                self.depth -= 1;
                return Ok(Some(Arg { pos: pipe.pos, first: false, term: Term::Pipe(Box::new(pipe)) }));
            }
            Kind::String | Kind::RawString => {
                let text = self.unquoted(self.val(t))?;
                Term::String { quoted: t.span, text }
            }
            _ => {
                self.back(t);
                return Ok(None);
            }
        };
        Ok(Some(Arg { pos: t.span.start, first: false, term }))
    }
}
