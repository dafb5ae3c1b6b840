//! The completion script for zsh: clap_complete's, but without a space after a `KEY=`, to which a value belongs.

use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::Path;

use clap_complete::env::{EnvCompleter, Zsh as Clap};

#[derive(Debug)]
pub struct Zsh;

const DESCRIBE: &str = "_describe -V 'values' other";

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        Clap.name()
    }

    fn is(&self, name: &str) -> bool {
        Clap.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<()> {
        let mut script = Vec::new();
        Clap.write_registration(var, name, bin, completer, &mut script)?;
        let script = String::from_utf8_lossy(&script);
        let suffix = "local -a suffix; [[ ${other[1]%%:*} == *= ]] && suffix=(-S '')";
        let (before, after) = script.split_once("[[ -n $other ]]").expect("clap_complete's script describes");
        let after = after.replace(DESCRIBE, &format!("{DESCRIBE} \"${{suffix[@]}}\""));
        write!(buf, "{before}{suffix}\n        [[ -n $other ]]{after}")
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        here: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<()> {
        Clap.write_complete(command, words, here, buf)
    }
}
