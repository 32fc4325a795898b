//! `punctual completions` and `punctual man`: what goes with an installation.

use clap::CommandFactory as _;

use super::print;
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
    let mut page = Vec::new();
    let mut program = Cli::command();
    program.build();
    if let Err(error) = clap_mangen::Man::new(program.clone()).render(&mut page) {
        eprintln!("punctual: cannot write the manual: {error}");
        return Exit::Unable;
    }
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        let man = clap_mangen::Man::new(command.clone());
        let name = command.get_name().to_uppercase();
        page.extend_from_slice(format!(".SH \"COMMAND {name}\"\n").as_bytes());
        let mut part = Vec::new();
        let written = man
            .render_synopsis_section(&mut part)
            .and_then(|()| man.render_description_section(&mut part))
            .and_then(|()| man.render_options_section(&mut part))
            .and_then(|()| man.render_extra_section(&mut part));
        if let Err(error) = written {
            eprintln!("punctual: cannot write the manual: {error}");
            return Exit::Unable;
        }
        // Sections of a command are subsections of the page.
        let part = String::from_utf8_lossy(&part).replace("\n.SH ", "\n.SS ");
        page.extend_from_slice(part.as_bytes());
    }
    print(&String::from_utf8_lossy(&page))
}
