//! Why a step fails, in kustomize's words.
//!
//! Owns the error type of the crate; knows no step.

/// Why manifests cannot be read, changed or printed. The texts are kustomize's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text is not YAML.
    #[error("{0}")]
    Malformed(String),
    /// A value has no form in Go.
    #[error("{0}")]
    Yaml(String),
    /// A text is YAML, but not a stream of objects.
    #[error("{0}")]
    Stream(String),
    /// An object lacks its kind or its name.
    #[error("missing {field} in object {object}")]
    Identity {
        /// `kind` or `metadata.name`.
        field: &'static str,
        /// The object's metadata.
        object: String,
    },
    /// Two objects have the same identity.
    #[error("may not add resource with an already registered id: {0}")]
    Duplicate(String),
    /// A field has another type than the step needs.
    #[error("wrong node kind: expected {expected} but got {got}: node contents:\n{content}")]
    Kind {
        /// The node kind that is needed.
        expected: &'static str,
        /// The node kind of the field.
        got: &'static str,
        /// The field's YAML.
        content: String,
    },
    /// An object has no form in JSON.
    #[error("{0}")]
    Json(String),
    /// Keys of maps are set twice: a line of text for each.
    #[error("yaml: unmarshal errors:{0}")]
    DuplicateKeys(String),
    /// A selector or one of its regular expressions is not valid.
    #[error("{0}")]
    Selector(String),
    /// A patch is not valid, or cannot be applied.
    #[error("{0}")]
    Patch(String),
    /// An image's name is not a regular expression.
    #[error("image {name:?}: {reason}")]
    Image {
        /// The name.
        name: String,
        /// Why it is refused.
        reason: String,
    },
    /// Why a build fails, in kustomize's words.
    #[error("{0}")]
    Text(String),
    /// A file or repository could not be fetched, so that a path is not tried in another way.
    #[error("{0}")]
    Http(String),
    /// A step failed for an object or a field.
    #[error("{context}: {source}")]
    Context {
        /// What was done.
        context: String,
        /// Why it failed.
        source: Box<Error>,
    },
    /// A resource is neither a file of objects nor a directory.
    #[error("accumulation err='{file}': {directory}")]
    Accumulation {
        /// Why it is no file of objects.
        file: Box<Error>,
        /// Why it is no directory with a kustomization.
        directory: Box<Error>,
    },
    /// An error with what kustomize's text leaves out: the text is kustomize's.
    #[error("{source}")]
    Hinted {
        /// Why the step failed.
        source: Box<Error>,
        /// What explains it.
        hint: String,
    },
}

impl Error {
    /// The same error, with what was done before it.
    #[must_use]
    pub fn within(self, context: impl Into<String>) -> Self {
        Self::Context { context: context.into(), source: Box::new(self) }
    }

    /// A text of kustomize.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The error at the end of the chain.
    #[must_use]
    pub fn root(&self) -> &Self {
        self.chain().last().unwrap_or(self)
    }

    /// The error and what it wraps, in their order.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |error| match error {
            Self::Context { source, .. } | Self::Hinted { source, .. } => Some(&**source),
            Self::Accumulation { directory, .. } => Some(&**directory),
            _ => None,
        })
    }

    /// Whether this holds for one of the errors at the ends: of what was tried as a file and as a directory, each has its own.
    #[must_use]
    pub fn any_root(&self, test: fn(&Self) -> bool) -> bool {
        test(self.root())
            || self
                .chain()
                .any(|error| matches!(error, Self::Accumulation { file, .. } if file.any_root(test)))
    }

    /// The first hint within.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.chain().find_map(|error| match error {
            Self::Hinted { hint, .. } => Some(hint.as_str()),
            _ => None,
        })
    }
}
