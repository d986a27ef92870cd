//! Shell texts: a plan or a refusal, and a plan's stages are parts of the text in its order, each of
//! which stands alone.

#![no_main]

#[allow(dead_code, unused_imports, reason = "the command uses all of it")]
#[path = "../../crates/weir-cli/src/shell/mod.rs"]
mod shell;

use libfuzzer_sys::fuzz_target;
use shell::{Plan, plan};

fuzz_target!(|text: &str| {
    let Ok(Plan::Pipeline(pipeline)) = plan(text, &|_| false) else { return };
    assert!(!pipeline.stages.is_empty());
    let mut rest = text;
    for stage in &pipeline.stages {
        let at = rest.find(&stage.source).expect("a stage is a part of the text");
        rest = &rest[at + stage.source.len()..];
        assert!(stage.shell_text.starts_with(&stage.source));
        // Alone it is one stage, the same: nothing of it belongs to the text around it.
        let Ok(Plan::Pipeline(alone)) = plan(&stage.source, &|_| false) else { continue };
        let [again] = alone.stages.as_slice() else {
            panic!("{:?} is more than one", stage.source)
        };
        assert_eq!(again.source, stage.source);
        if let Some(direct) = &stage.direct {
            assert_eq!(again.direct.as_ref(), Some(direct));
            assert!(direct.argv.first().is_some_and(|name| !name.is_empty()));
        }
    }
});
