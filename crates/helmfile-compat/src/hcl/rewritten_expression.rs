//! Expressions as the crate can evaluate them: calls whose arguments may fail (`can`, `try`), and loops within bounds.
//!
//! Owns what is rewritten before an evaluation. The crate evaluates arguments before a call and ends with the first error: each argument
//! of such a call becomes its text, after an object of the variables that it may name; the functions evaluate the texts. The crate counts
//! nothing that loops make or read: what they go through and each part of a result goes through the function [`COUNTED`], and each
//! variable that they name through [`READ`]. Its arithmetic is not ours: operators become calls of the functions that [`OPERATORS`] names,
//! in a text when it is read again.

use std::str::FromStr as _;

use hcl::eval::{Context, Evaluate};
use hcl::expr::{
    Expression, FuncCall, Object, ObjectKey, Operation, TemplateExpr, TraversalOperator, Variable,
};
use hcl::template::{Directive, Element, Template};
use hcl::{Identifier, Value};

use super::arithmetic::OPERATORS;
use super::functions;

/// The maximal size of an argument as a text, in bytes: each call around it nearly doubles the escapes of a call.
const MAX_ARGUMENT: usize = 64 << 10;

/// The most operators of a traversal: the crate calls itself for each `[*]`. It bounds all other nesting by itself, at 64 levels and 128
/// operators.
const MAX_OPERATORS: usize = 128;

/// Name of the function that counts a value and returns it.
pub(super) const COUNTED: &str = "windlass_counted";
/// Name of the function that counts the variable of a loop that it returns.
pub(super) const READ: &str = "windlass_read";

/// An expression whose calls of `can` and `try` have texts as arguments, and whose loops count what they make. `variables` are those of
/// the context that it is for.
///
/// # Errors
/// A template within it cannot be parsed; or such a call has no argument, more than it takes, or a list to expand.
pub(super) fn rewritten(expression: &Expression, variables: &[&str]) -> Result<Expression, String> {
    let mut out = expression.clone();
    let variables = variables.iter().map(|name| Identifier::sanitized(*name)).collect();
    Scope { variables, form: Form::Evaluated, loops: false, in_template: false }.expression(&mut out)?;
    Ok(out)
}

/// The value of the first argument that can be evaluated: that of `try`. The arguments are as [`rewritten`] writes them.
pub(super) fn first_success(arguments: &[Value]) -> Result<Value, String> {
    let (scope, arguments) =
        arguments.split_first().ok_or_else(|| "the call was not rewritten".to_owned())?;
    let mut errors = Vec::new();
    for argument in arguments {
        functions::count_made(super::size(scope))?;
        match evaluated(scope, argument) {
            Ok(value) => return Ok(value),
            Err(error) => errors.push(error),
        }
    }
    Err(format!("no argument can be evaluated: {}", errors.join("; ")))
}

/// The value of an argument that was made a text, with the variables of an object.
fn evaluated(scope: &Value, argument: &Value) -> Result<Value, String> {
    let (Value::Object(variables), Value::String(text)) = (scope, argument) else {
        return Err("an argument is no expression".to_owned());
    };
    let mut expression = Expression::from_str(text).map_err(|error| error.to_string())?;
    Scope { variables: Vec::new(), form: Form::ReadAgain, loops: false, in_template: false }
        .expression(&mut expression)?;
    let mut context = Context::new();
    functions::declare(&mut context);
    for (name, value) in variables {
        context.declare_var(Identifier::sanitized(name), value.clone());
    }
    expression.evaluate(&context).map_err(|error| error.to_string())
}

/// What an expression is rewritten for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It is evaluated.
    Evaluated,
    /// It becomes a text: the crate prints the literals of templates as they are, without the escapes of a quoted template.
    Printed,
    /// It was such a text, and is evaluated: all is rewritten but its operators.
    ReadAgain,
}

/// Where an expression stands.
struct Scope {
    /// The variables that it may name.
    variables: Vec<Identifier>,
    form: Form,
    /// Whether it is evaluated once for each item of a loop.
    loops: bool,
    /// Whether it stands in a template. A template is printed when its expressions are rewritten, and read again by the crate.
    in_template: bool,
}

impl Scope {
    /// The scope of the body of a loop.
    fn within(&self, key: Option<&Identifier>, value: &Identifier) -> Self {
        let mut variables = self.variables.clone();
        for name in key.into_iter().chain([value]) {
            if !variables.contains(name) {
                variables.push(name.clone());
            }
        }
        Self { variables, form: self.form, loops: true, in_template: self.in_template }
    }

    /// The scope of the expressions of a template.
    fn in_template(&self) -> Self {
        Self { variables: self.variables.clone(), form: self.form, loops: self.loops, in_template: true }
    }

    fn expression(&self, expression: &mut Expression) -> Result<(), String> {
        match expression {
            Expression::Array(items) => items.iter_mut().try_for_each(|item| self.expression(item)),
            Expression::Object(object) => {
                for (mut key, mut value) in std::mem::take(object) {
                    // A plain word as key is a text.
                    if let ObjectKey::Expression(key) = &mut key
                        && !matches!(key, Expression::Variable(_))
                    {
                        self.expression(key)?;
                    }
                    self.expression(&mut value)?;
                    object.insert(key, value);
                }
                Ok(())
            }
            Expression::TemplateExpr(text) => {
                let mut template = Template::from_expr(text).map_err(|error| error.to_string())?;
                self.template(&mut template)?;
                **text = TemplateExpr::QuotedString(template.to_string());
                Ok(())
            }
            Expression::Traversal(traversal) => {
                if traversal.operators.len() > MAX_OPERATORS {
                    return Err(format!(
                        "an expression has more than {MAX_OPERATORS} parts in a row such as .name, [0] and [*]"
                    ));
                }
                self.expression(&mut traversal.expr)?;
                traversal.operators.iter_mut().try_for_each(|operator| match operator {
                    TraversalOperator::Index(index) => self.expression(index),
                    _ => Ok(()),
                })
            }
            Expression::Variable(_) if self.loops && self.form != Form::ReadAgain => {
                let value = std::mem::replace(expression, Expression::Null);
                *expression = FuncCall::builder(READ).arg(value).build().into();
                Ok(())
            }
            Expression::FuncCall(call) => self.call(call),
            Expression::Parenthesis(inner) => self.expression(inner),
            Expression::Conditional(choice) => {
                self.expression(&mut choice.cond_expr)?;
                self.expression(&mut choice.true_expr)?;
                self.expression(&mut choice.false_expr)
            }
            Expression::Operation(operation) => {
                let called = match &mut **operation {
                    Operation::Unary(unary) => return self.expression(&mut unary.expr),
                    Operation::Binary(binary) => {
                        self.expression(&mut binary.lhs_expr)?;
                        self.expression(&mut binary.rhs_expr)?;
                        let own = OPERATORS.iter().find(|(operator, ..)| *operator == binary.operator);
                        let Some((_, name, _)) = own.filter(|_| self.form != Form::Printed) else {
                            return Ok(());
                        };
                        let side = |side: &mut Expression| std::mem::replace(side, Expression::Null);
                        let (left, right) = (side(&mut binary.lhs_expr), side(&mut binary.rhs_expr));
                        FuncCall::builder(*name).arg(left).arg(right).build()
                    }
                };
                *expression = called.into();
                Ok(())
            }
            Expression::ForExpr(each) => {
                self.expression(&mut each.collection_expr)?;
                let inner = self.within(each.key_var.as_ref(), &each.value_var);
                let parts = [each.key_expr.as_mut(), Some(&mut each.value_expr), each.cond_expr.as_mut()];
                parts.into_iter().flatten().try_for_each(|part| inner.expression(part))?;
                if self.form != Form::ReadAgain {
                    // With a literal body, what the loop goes through bounds what it makes.
                    count(&mut each.collection_expr, 0);
                    count(&mut each.value_expr, 0);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn call(&self, call: &mut FuncCall) -> Result<(), String> {
        let name = call.name.to_string();
        if !matches!(name.as_str(), "can" | "try") || self.form == Form::ReadAgain {
            return call.args.iter_mut().try_for_each(|argument| self.expression(argument));
        }
        match (name.as_str(), call.args.len()) {
            _ if call.expand_final => {
                return Err(format!("{name} takes no list to expand (...): write its items as arguments"));
            }
            ("can", 1) | ("try", 1..) => {}
            ("can", count) => return Err(format!("can takes one argument, and has {count}")),
            _ => return Err("try needs an argument".to_owned()),
        }
        let printed = Self { form: Form::Printed, ..self.in_template() };
        for argument in &mut call.args {
            printed.expression(argument)?;
            let text = argument.to_string();
            if text.len() > MAX_ARGUMENT {
                return Err(format!(
                    "an argument of {name} has more than {} KiB, or too many calls in calls",
                    MAX_ARGUMENT >> 10
                ));
            }
            *argument = Expression::String(text);
        }
        let named = |name: &Identifier| {
            (ObjectKey::Identifier(name.clone()), Expression::from(Variable::from(name.clone())))
        };
        let variables: Object<ObjectKey, Expression> = self.variables.iter().map(named).collect();
        call.args.insert(0, Expression::Object(variables));
        Ok(())
    }

    fn template(&self, template: &mut Template) -> Result<(), String> {
        let expressions = self.in_template();
        template.elements_mut().iter_mut().try_for_each(|element| match element {
            Element::Literal(text) => {
                if self.form == Form::Printed || self.in_template {
                    *text = escaped(text);
                }
                Ok(())
            }
            Element::Interpolation(interpolation) => {
                expressions.expression(&mut interpolation.expr)?;
                if self.loops && self.form != Form::ReadAgain {
                    count(&mut interpolation.expr, 0);
                }
                Ok(())
            }
            Element::Directive(directive) => match &mut **directive {
                Directive::If(choice) => {
                    expressions.expression(&mut choice.cond_expr)?;
                    self.template(&mut choice.true_template)?;
                    choice.false_template.as_mut().map_or(Ok(()), |template| self.template(template))
                }
                Directive::For(each) => {
                    expressions.expression(&mut each.collection_expr)?;
                    self.within(each.key_var.as_ref(), &each.value_var).template(&mut each.template)?;
                    if self.form != Form::ReadAgain {
                        count(&mut each.collection_expr, literal_bytes(&each.template));
                    }
                    Ok(())
                }
            },
        })
    }
}

/// Lets an expression count its value when it is evaluated; `of_item`: further bytes for each of its items.
fn count(expression: &mut Expression, of_item: usize) {
    let value = std::mem::replace(expression, Expression::Null);
    *expression = FuncCall::builder(COUNTED).arg(value).arg(of_item).build().into();
}

/// Bytes of the texts between the expressions of a template.
fn literal_bytes(template: &Template) -> usize {
    let of_element = |element: &Element| match element {
        Element::Literal(text) => text.len(),
        Element::Interpolation(_) => 0,
        Element::Directive(directive) => match &**directive {
            Directive::If(choice) => {
                literal_bytes(&choice.true_template) + choice.false_template.as_ref().map_or(0, literal_bytes)
            }
            // Its own count has them.
            Directive::For(_) => 0,
        },
    };
    template.elements().iter().map(of_element).sum()
}

/// A text with the escapes of a quoted template.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
