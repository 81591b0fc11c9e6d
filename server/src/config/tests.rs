use super::*;

fn load(flags: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let own =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
    Config::load(own(flags), own(environment))
}

fn file(text: &str) -> (PathBuf, String) {
    let path = std::env::temp_dir().join(format!("alluvium-config-{}-{:x}.toml", std::process::id(), text.len()));
    std::fs::write(&path, text).expect("the temporary directory is writable");
    let name = path.to_str().expect("a plain path").to_owned();
    (path, name)
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let (path, name) =
        file("cores = 3\nmax_connections = 7\nlog-format = \"json\"\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]");
    let config =
        load(&[("config", &name), ("cores", "1")], &[("ALLUVIUM_CORES", "2"), ("ALLUVIUM_MAX_CONNECTIONS", "5")])
            .expect("all known");
    std::fs::remove_file(path).expect("just written");
    assert_eq!((config.cores, config.max_connections, config.log.format), (1, 5, LogFormat::Json));
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.drain_timeout, Duration::from_secs(10));
}

#[test]
fn an_unknown_setting_is_refused_wherever_it_comes_from() {
    assert!(load(&[("colour", "red")], &[]).unwrap_err().0.contains("unknown setting --colour"));
    assert!(load(&[], &[("ALLUVIUM_COLOUR", "red")]).unwrap_err().0.contains("ALLUVIUM_COLOUR"));
    let (path, name) = file("colour = \"red\"");
    assert!(load(&[("config", &name)], &[]).unwrap_err().0.contains("unknown setting colour"));
    std::fs::remove_file(path).expect("just written");
    assert!(load(&[], &[("PGCOLOUR", "red")]).is_ok());
}

#[test]
fn listening_beyond_loopback_needs_a_password() {
    assert!(load(&[("listen", "0.0.0.0:5432")], &[]).unwrap_err().0.contains("without a password"));
    assert!(load(&[("listen", "0.0.0.0:5432"), ("password", "secret")], &[]).is_ok());
    assert!(load(&[("listen", "[::1]:5432")], &[]).is_ok());
}

#[test]
fn bad_values_are_named() {
    for (name, value) in [
        ("cores", "0"),
        ("io", "fast"),
        ("listen", "nowhere"),
        ("log-format", "xml"),
        ("memory-limit", "much"),
        ("max-connections", "-1"),
        ("drain-timeout", "soon"),
    ] {
        let error = load(&[(name, value)], &[]).unwrap_err();
        assert!(error.0.contains(name) && error.0.contains(value), "{error}");
    }
    assert!(load(&[("tls-cert", "a.pem")], &[]).unwrap_err().0.contains("belong together"));
    assert!(load(&[("password", "")], &[]).unwrap_err().0.contains("empty"));
}
