//! Which values an expression of HCL refers to.

use std::collections::BTreeMap;

use hcl::Expression;
use hcl::expr::{ObjectKey, Operation, TraversalOperator};
use hcl::template::{Directive, Element, Template};

/// What an expression refers to under an accessor.
#[derive(Default)]
pub(super) struct References {
    /// The names of `ACCESSOR.NAME`, each with how often it is there.
    pub(super) names: BTreeMap<String, usize>,
    /// How often the accessor is used as a whole.
    pub(super) whole: usize,
    /// Why that is refused where only names may be used.
    refusal: Option<String>,
}

impl References {
    /// Those of an expression.
    ///
    /// # Errors
    /// A template within it cannot be parsed.
    pub(super) fn of(expression: &Expression, accessor: &str) -> Result<Self, String> {
        let mut found = Self::default();
        collect(expression, accessor, &mut found)?;
        Ok(found)
    }

    /// Those of an expression that may only use names.
    ///
    /// # Errors
    /// A template within it cannot be parsed, or the accessor is used as a whole.
    pub(super) fn by_name(expression: &Expression, accessor: &str) -> Result<Self, String> {
        let mut found = Self::of(expression, accessor)?;
        found.refusal.take().map_or(Ok(found), Err)
    }

    fn refuse(&mut self, reason: String) {
        self.whole += 1;
        self.refusal.get_or_insert(reason);
    }
}

fn collect(expression: &Expression, accessor: &str, names: &mut References) -> Result<(), String> {
    match expression {
        Expression::Array(items) => items.iter().try_for_each(|item| collect(item, accessor, names)),
        Expression::Object(object) => object.iter().try_for_each(|(key, value)| {
            if let ObjectKey::Expression(key) = key {
                // A plain word as key is a text.
                if !matches!(key, Expression::Variable(_)) {
                    collect(key, accessor, names)?;
                }
            }
            collect(value, accessor, names)
        }),
        Expression::TemplateExpr(text) => {
            let template = Template::from_expr(text).map_err(|error| error.to_string())?;
            elements(&template, accessor, names)
        }
        Expression::Variable(variable) if variable.as_str() == accessor => {
            names.refuse(format!(
                "the {accessor:?} object cannot be accessed directly. Instead, access one of its attributes"
            ));
            Ok(())
        }
        Expression::Traversal(traversal) => {
            let root =
                matches!(&traversal.expr, Expression::Variable(variable) if variable.as_str() == accessor);
            match (root, traversal.operators.first()) {
                (true, Some(TraversalOperator::GetAttr(name))) => {
                    *names.names.entry(name.as_str().to_owned()).or_default() += 1;
                }
                (true, _) => names.refuse(format!("the {accessor:?} object does not support this operation")),
                (false, _) => collect(&traversal.expr, accessor, names)?,
            }
            traversal.operators.iter().try_for_each(|operator| match operator {
                TraversalOperator::Index(index) => collect(index, accessor, names),
                _ => Ok(()),
            })
        }
        Expression::FuncCall(call) => {
            call.args.iter().try_for_each(|argument| collect(argument, accessor, names))
        }
        Expression::Parenthesis(inner) => collect(inner, accessor, names),
        Expression::Conditional(choice) => [&choice.cond_expr, &choice.true_expr, &choice.false_expr]
            .into_iter()
            .try_for_each(|part| collect(part, accessor, names)),
        Expression::Operation(operation) => match &**operation {
            Operation::Unary(unary) => collect(&unary.expr, accessor, names),
            Operation::Binary(binary) => {
                collect(&binary.lhs_expr, accessor, names)?;
                collect(&binary.rhs_expr, accessor, names)
            }
        },
        Expression::ForExpr(each) => [
            Some(&each.collection_expr),
            each.key_expr.as_ref(),
            Some(&each.value_expr),
            each.cond_expr.as_ref(),
        ]
        .into_iter()
        .flatten()
        .try_for_each(|part| collect(part, accessor, names)),
        _ => Ok(()),
    }
}

fn elements(template: &Template, accessor: &str, names: &mut References) -> Result<(), String> {
    template.elements().iter().try_for_each(|element| match element {
        Element::Literal(_) => Ok(()),
        Element::Interpolation(interpolation) => collect(&interpolation.expr, accessor, names),
        Element::Directive(directive) => match &**directive {
            Directive::If(choice) => {
                collect(&choice.cond_expr, accessor, names)?;
                elements(&choice.true_template, accessor, names)?;
                choice.false_template.as_ref().map_or(Ok(()), |template| elements(template, accessor, names))
            }
            Directive::For(each) => {
                collect(&each.collection_expr, accessor, names)?;
                elements(&each.template, accessor, names)
            }
        },
    })
}
