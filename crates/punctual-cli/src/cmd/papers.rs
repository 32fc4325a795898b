//! `punctual completions` and `punctual man`: what goes with an installation.

use std::io;

use clap::CommandFactory as _;
use clap_mangen::Man;

use super::{complain, print};
use crate::args::Cli;
use crate::exit::Exit;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "punctual", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the manual page: the program, then each of its commands.
pub(crate) fn man() -> Exit {
    match page() {
        Ok(page) => print(&page),
        Err(error) => {
            complain(&format!("punctual: cannot write the manual: {error}\n"));
            Exit::Unable
        }
    }
}

fn page() -> io::Result<String> {
    let mut program = Cli::command();
    program.build();
    let man = Man::new(program.clone());
    let mut page = section(|out| man.render_title(out))?;
    page += &section(|out| man.render_name_section(out))?;
    page += &section(|out| man.render_synopsis_section(out))?;
    page += &section(|out| man.render_extra_section(out))?.replace(".SH EXTRA\n", ".SH DETAILS\n.nf\n");
    page += ".fi\n";
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let man = Man::new(command.clone());
        page += &format!(".SH \"PUNCTUAL {}\"\n", command.get_name().to_uppercase());
        page += &format!("{}\n", command.get_about().cloned().unwrap_or_default());
        page += &subsection(&section(|out| man.render_synopsis_section(out))?);
        page += &subsection(&section(|out| man.render_options_section(out))?);
        if command.get_after_long_help().is_some() {
            page += &subsection(&section(|out| man.render_extra_section(out))?);
            page += ".fi\n";
        }
    }
    Ok(page)
}

/// One section, without the preamble that comes with each, except before the title.
fn section(render: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<String> {
    let mut out = Vec::new();
    render(&mut out)?;
    let text = String::from_utf8_lossy(&out);
    let is_title = text.contains(".TH ");
    let keep = |line: &&str| is_title || !(line.starts_with(".ie ") || line.starts_with(".el "));
    Ok(text.lines().filter(keep).map(|line| format!("{line}\n")).collect())
}

/// A section of a command is a subsection of the page. What is laid out by hand stays so.
fn subsection(text: &str) -> String {
    text.replace(".SH EXTRA\n", ".SS DETAILS\n.nf\n").replace(".SH ", ".SS ")
}
