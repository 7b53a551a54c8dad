//! Flags of the post-renderer of `windlass helmfile`.

use crate::cli::post_render::PostRender;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::paths;
use helmfile_compat::record::Record;

/// Flags of the post-renderer.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct PostRendererFlags {
    /// A post-renderer for every release
    #[arg(long, default_value = "", hide_default_value = true)]
    post_renderer: String,
    /// An argument of the post-renderer (can specify multiple)
    #[arg(long, allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

impl PostRendererFlags {
    /// The post-renderer of the command line, the release or the defaults.
    pub(super) fn of(&self, state: &State, release: &Record) -> PostRender {
        let defaults = state.fields.record(key!("helmDefaults"));
        let own = release.optional_text(key!("postRenderer"));
        let program = [
            Some(self.post_renderer.clone()),
            own,
            defaults.as_ref().and_then(|d| d.optional_text(key!("postRenderer"))),
        ]
        .into_iter()
        .flatten()
        .find(|program| !program.is_empty());
        let arguments = [
            self.post_renderer_args.clone(),
            release.texts(key!("postRendererArgs")),
            defaults.map(|d| d.texts(key!("postRendererArgs"))).unwrap_or_default(),
        ];
        let arguments = arguments.into_iter().find(|arguments| !arguments.is_empty());
        let mut program = program.unwrap_or_default();
        if program.starts_with('.') {
            program = paths::within(&state.cwd, &program);
        }
        PostRender::of(program, arguments.unwrap_or_default())
    }
}
