//! Arguments, exit codes and the form of what is printed.

mod common;

use common::{Net, PATIENCE, Proc, run};

#[test]
fn wrong_usage_exits_with_2() {
    assert_eq!(run(&["frobnicate"]).code, Some(2));
    assert_eq!(run(&["send", "demo", "--size", "5"]).code, Some(2), "--size needs --count");
    assert_eq!(run(&["up", "--nodes", "0"]).code, Some(2));
    assert_eq!(run(&["recv", "demo", "--for", "soon"]).code, Some(2));
    assert_eq!(run(&["chat", "demo", "-D", "nonsense"]).code, Some(2));
    assert_eq!(run(&["chat", "demo", "--transport", "inproc"]).code, Some(2));
    assert_eq!(run(&["up-ctl", "partition", "A,B"]).code, Some(2));
    assert_eq!(run(&["up-ctl", "--control", "../x", "status"]).code, Some(2));
}

#[test]
fn a_wrong_setting_exits_with_3_and_names_the_nearest_attribute() {
    let ended = run(&["--json", "chat", "demo", "-D", "UDP.mcast_prot=1"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.stderr.contains("did you mean \"mcast_port\"?"), "{}", ended.stderr);
    let error = &ended.objects()[0]["error"];
    assert!(error["code"].as_str().is_some_and(|c| c.starts_with("RG")), "{error}");
    assert_eq!(run(&["chat", "demo", "-D", "UDP.mcast_port=high"]).code, Some(3));
}

#[test]
fn a_stack_file_with_mistakes_exits_with_3_and_tells_all_of_them() {
    let file = std::env::temp_dir().join(format!("rgroups-stack-{}.xml", std::process::id()));
    std::fs::write(&file, "<config><UDP mcast_prot=\"1\"/><PNIG/></config>").expect("writable");
    let file = file.to_str().expect("UTF-8");
    for args in [&["config", "check", file][..], &["chat", "demo", "--props", file]] {
        let ended = run(args);
        let told = ended.stdout.concat() + &ended.stderr;
        assert_eq!(ended.code, Some(3), "{args:?}: {told}");
        assert!(told.contains("did you mean \"mcast_port\"?"), "{told}");
        assert!(told.contains("did you mean PING?"), "{told}");
    }
    let ended = run(&["--json", "config", "check", file]);
    let told = &ended.objects()[0];
    assert_eq!((ended.code, told["errors"].as_u64()), (Some(3), Some(2)), "{told}");
    assert_eq!(told["findings"][0]["line"].as_u64(), Some(1), "{told}");
    std::fs::remove_file(file).expect("removable");
}

#[test]
fn presets_are_checked_shown_converted_and_compared() {
    assert_eq!(run(&["config", "check"]).code, Some(0));
    assert_eq!(run(&["config", "check", "tcp", "-D", "no.such.property=1"]).code, Some(0));
    let shown = run(&["config", "show", "-c", "tcp", "--to", "toml", "-D", "MFC.max_credits=1M"]);
    assert!(shown.stdout.contains(&"max_credits = 1000000".to_owned()), "{:?}", shown.stdout);
    let explained = run(&["config", "explain", "UDP.mcast_port", "-D", "jgroups.udp.mcast_port=5"]);
    assert!(explained.stdout[0].contains(" 5 "), "{:?}", explained.stdout);
    assert_eq!(run(&["config", "explain", "UDP.mcast_prot"]).code, Some(3));
    assert_eq!(run(&["config", "diff", "udp", "tcp"]).code, Some(6));
    assert_eq!(run(&["config", "diff", "udp", "udp.xml"]).stdout, ["no difference"]);
    assert!(run(&["config", "protocols"]).stdout.iter().any(|l| l.starts_with("NAKACK2 ")));
    assert!(run(&["config", "presets"]).stdout.iter().any(|l| l.starts_with("tcp.xml ")));
}

#[test]
fn what_cannot_be_done_exits_with_1_and_hints_at_what_to_do() {
    let ended = run(&["up-ctl", "--control", "nobody-has-this-name", "status"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("rgroups up"), "{}", ended.stderr);
    assert_eq!(run(&["send", "demo", "--file", "/nonexistent/file"]).code, Some(1));
}

#[test]
fn an_address_that_is_not_ours_exits_with_4() {
    let args = ["view", "demo", "-DUDP.bind_addr=203.0.113.7", "--timeout", "2s"];
    let ended = run(&args);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
}

#[test]
fn nothing_is_coloured_under_no_color_or_into_a_pipe() {
    for env in [&[("NO_COLOR", "1")][..], &[]] {
        for args in [&["--help"][..], &["chat", "demo", "-D", "UDP.x=1"], &["up-ctl", "partition"]]
        {
            let ended = Proc::start_in(args, env).end(PATIENCE);
            let all = ended.stdout.concat() + &ended.stderr;
            assert!(!all.contains('\x1b'), "{args:?} {env:?}: {all}");
        }
    }
}

#[test]
fn json_output_is_one_object_a_line_with_a_schema() {
    let version = run(&["--json", "version"]);
    assert_eq!(version.code, Some(0));
    assert_eq!(version.objects()[0]["jgroups_wire"], "5.5.6");
    let view = Net::udp().start("view", "A", &[]).end(PATIENCE);
    assert_eq!(view.code, Some(0), "{}", view.stderr);
    let objects = view.objects();
    assert!(objects.iter().all(|o| o["schema"] == 1 && o["ts"].is_string()), "{objects:?}");
    assert_eq!(view.object("view")["coordinator"], "A");
}

#[test]
fn completions_know_every_command_of_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{shell}");
        let script = script.stdout.join("\n");
        for command in ["up-ctl", "decode", "partition", "--transport"] {
            assert!(script.contains(command.trim_start_matches('-')), "{shell}: {command}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let dir = std::env::temp_dir().join(format!("rgroups-man-{}", std::process::id()));
    let ended = run(&["man", dir.to_str().expect("text")]);
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).expect(name);
    assert!(page("rgroups-decode.1").contains("tcpdump"), "the example");
    assert!(page("rgroups-up-ctl-partition.1").contains("partition"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = dir.join("rgroups.1").join("below a file");
    assert_eq!(run(&["man", page.to_str().expect("text")]).code, Some(1));
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn text_of_peers_is_escaped_on_a_terminal() {
    let net = Net::udp();
    let mut json = net.start("chat", "B", &[]);
    json.view(PATIENCE, &["B"]);
    let mut evil = net.start("chat", "evil\x1b[2J", &[]);
    evil.find(PATIENCE, |v| v["type"] == "view");
    evil.write("\x1b[2Jgone");
    let (_, got) = json.find(PATIENCE, |v| v["type"] == "message");
    assert_eq!(got["text"], "\x1b[2Jgone", "a program gets what was sent");
    assert_eq!(got["from"], "evil\\u{1b}[2J");
}
