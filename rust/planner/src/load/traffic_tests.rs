use super::super::conversation::Turn;
use super::super::traffic_request::TrafficRequest;
use super::*;

fn request(json: &str) -> TrafficRequest {
    serde_json::from_str(json).expect(json)
}

fn traffic(json: &str, seed: u64) -> Traffic {
    request(json).traffic(seed).expect(json)
}

fn all(json: &str, seed: u64) -> Vec<Conversation> {
    traffic(json, seed).collect()
}

fn of_turns<T>(conversations: &[Conversation], figure: impl Fn(&Turn) -> T) -> Vec<T> {
    conversations.iter().flat_map(|conversation| &conversation.turns).map(figure).collect()
}

#[test]
fn test_defaults_are_those_of_the_benchmark() {
    let traffic = traffic("{}", 0);
    assert_eq!((traffic.requests(), traffic.rate(), traffic.users()), (1000, Some(f64::INFINITY), None));
    assert_eq!((traffic.longest(), traffic.models(), traffic.is_closed()), (1152, 1, false));
    let turn = Turn { input: 1024, output: 128, ..Turn::default() };
    let expected = Conversation { turns: vec![turn], ..Conversation::default() };
    assert!(traffic.eq(std::iter::repeat_n(expected, 1000)));
}

#[test]
fn test_a_seed_decides_all_and_another_none() {
    let json = r#"{"rate": 3, "burstiness": 0.5, "input": "lognormal:900:700", "output": "exponential:80",
                   "turns": "uniform:1:4", "pause": "exponential:2", "prefix": 20, "prefixes": 3,
                   "priorities": "0@0.5,1@0.5", "models": [1, 2]}"#;
    assert_eq!(all(json, 5), all(json, 5));
    assert_ne!(all(json, 5), all(json, 6));
    let mut ahead = traffic(json, 5);
    assert!(ahead.nth(9).is_some());
    let apart = ahead.clone();
    assert!(ahead.eq(apart), "a copy goes on as its original");
}

/// Each kind of figure has random numbers of its own.
#[test]
fn test_a_change_of_one_figure_leaves_the_others() {
    let base = all(r#"{"rate": 2, "input": "uniform:1:99", "output": "uniform:1:99"}"#, 1);
    let at = |conversations: &[Conversation]| conversations.iter().map(|one| one.at).collect::<Vec<_>>();
    for (other, same_input, same_output) in [
        (r#"{"rate": 2, "input": "uniform:1:50", "output": "uniform:1:99"}"#, false, true),
        (r#"{"rate": 2, "input": "uniform:1:99", "output": 7}"#, true, false),
        (
            r#"{"rate": 2, "input": "uniform:1:99", "output": "uniform:1:99", "models": [1, 1],
                "priorities": "0@1,5@1", "pause": "exponential:1"}"#,
            true,
            true,
        ),
    ] {
        let other = all(other, 1);
        assert_eq!(at(&base), at(&other));
        assert_eq!(of_turns(&base, |turn| turn.input) == of_turns(&other, |turn| turn.input), same_input);
        assert_eq!(of_turns(&base, |turn| turn.output) == of_turns(&other, |turn| turn.output), same_output);
    }
    let slower = all(r#"{"rate": 1, "input": "uniform:1:99", "output": "uniform:1:99"}"#, 1);
    assert_eq!(of_turns(&base, |turn| turn.input), of_turns(&slower, |turn| turn.input));
    assert!(base.iter().zip(&slower).all(|(fast, slow)| (slow.at - 2.0 * fast.at).abs() < 1e-9 * slow.at));
}

/// `requests` counts turns exactly, and the rate is that of turns.
#[test]
fn test_turns_are_requests() {
    for turns in ["3", "uniform:1:5", "exponential:3"] {
        let json = format!(r#"{{"rate": 8, "turns": "{turns}", "requests": 10001}}"#);
        let conversations = all(&json, 2);
        assert_eq!(of_turns(&conversations, |_| ()).len(), 10_001);
        let last = conversations.last().expect("has some").at;
        assert!((10_001.0 / last / 8.0 - 1.0).abs() < 0.06, "{turns}: {last}");
        assert!(conversations.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}

#[test]
fn test_closed_loops_wait_before_each_turn() {
    let traffic = traffic(r#"{"users": 4, "pause": "exponential:3", "requests": 4000, "max_concurrency": 3}"#, 0);
    assert_eq!((traffic.users(), traffic.rate(), traffic.max_concurrency()), (Some(4), None, Some(3)));
    let pauses: Vec<f64> = traffic.map(|one| if one.at == one.pause { one.at } else { f64::NAN }).collect();
    let mean = pauses.iter().sum::<f64>() / 4000.0;
    assert!((mean - 3.0).abs() < 0.2, "{mean}");
}

#[test]
fn test_priorities_and_models_have_their_shares() {
    let json = r#"{"rate": 1, "requests": 8000, "priorities": "0@0.9,-1@0.1", "models": [3, 0, 1]}"#;
    let drawn = traffic(json, 3);
    assert_eq!(drawn.models(), 3);
    let conversations: Vec<Conversation> = drawn.collect();
    let urgent = conversations.iter().filter(|one| one.turns[0].priority == -1).count();
    let models = [0, 1, 2].map(|model| conversations.iter().filter(|one| one.model == model).count());
    assert!(urgent.abs_diff(800) < 110, "{urgent}");
    assert!(models[0].abs_diff(6000) < 160 && models[1] == 0 && models[2].abs_diff(2000) < 160, "{models:?}");
}

/// As vLLM's benchmark: from the length times (1 - r), rounded down, to times (1 + r), rounded up; the prefix on top.
#[test]
fn test_range_ratio_is_that_of_the_benchmark() {
    let json = r#"{"input": 10, "output": 4, "range_ratio": {"input": 0.25, "output": 0.9}, "prefix": 100}"#;
    let conversations = all(json, 0);
    let (inputs, outputs) = (of_turns(&conversations, |turn| turn.input), of_turns(&conversations, |turn| turn.output));
    assert_eq!((inputs.iter().min(), inputs.iter().max()), (Some(&107), Some(&113)));
    assert_eq!((outputs.iter().min(), outputs.iter().max()), (Some(&1), Some(&8)));
    assert_eq!(traffic(json, 0).longest(), 121);
    let both = r#"{"input": 10, "output": 10, "range_ratio": 0.5}"#;
    assert_eq!(of_turns(&all(both, 0), |turn| turn.output).into_iter().max(), Some(15));
}

#[test]
fn test_normalized_traffic_ends_on_time() {
    let conversations = all(r#"{"rate": 10, "burstiness": 0.2, "normalize": true, "requests": 500}"#, 4);
    assert!((conversations[499].at - 50.0).abs() < 1e-9);
}

#[test]
fn test_rates_are_numbers_or_texts() {
    assert_eq!(traffic(r#"{"rate": "inf"}"#, 0).rate(), Some(f64::INFINITY));
    assert_eq!(traffic(r#"{"rate": "2.5"}"#, 0).rate(), Some(2.5));
    let infinite = TrafficRequest { rate: Some(f64::INFINITY.into()), ..TrafficRequest::default() };
    assert!(infinite.traffic(0).expect("is allowed").all(|conversation| conversation.at == 0.0));
}

#[test]
fn test_cut_lengths_are_said() {
    assert!(traffic(r#"{"input": "lognormal:100:10"}"#, 0).said().is_empty());
    let said = traffic(r#"{"input": "exponential:100", "longest_input": 200}"#, 0).said().join("");
    assert!(said.starts_with("input of more than 200 are cut to it: 13."), "{said}");
}

#[test]
fn test_what_does_not_go_together_is_refused_by_name() {
    for (json, name) in [
        (r#"{"rate": 0}"#, "rate is 0"),
        (r#"{"rate": "fast"}"#, "rate is 'fast'"),
        (r#"{"requests": 0}"#, "requests is 0"),
        (r#"{"users": 0}"#, "users is 0"),
        (r#"{"max_concurrency": 0}"#, "max_concurrency is 0"),
        (r#"{"rate": 1, "arrival": "posson"}"#, "arrival \"posson\" is unknown"),
        (r#"{"rate": 1, "arrival": "gamma"}"#, "arrival='gamma' needs burstiness"),
        (r#"{"rate": 1, "arrival": "burst"}"#, "arrival='burst' needs burst_size"),
        (r#"{"rate": 1, "arrival": "on_off", "on": 1}"#, "arrival='on_off' needs off"),
        (r#"{"rate": 1, "arrival": "poisson", "burstiness": 2}"#, "burstiness is of arrival='gamma'"),
        (r#"{"rate": 1, "period": 9}"#, "period is of arrival='diurnal'"),
        (r#"{"rate": 1, "arrival": "diurnal", "peak_to_mean": 3}"#, "peak_to_mean is 3"),
        (r#"{"rate": 1, "arrival": "burst", "burst_size": 0}"#, "burst_size is 0"),
        (r#"{"rate": 1, "arrival": "burst", "burst_size": 2, "normalize": true}"#, "normalize is of"),
        (r#"{"arrival": "poisson"}"#, "arrival does not go"),
        (r#"{"normalize": true}"#, "normalize does not go"),
        (r#"{"rate": 1, "normalize": true, "turns": 2}"#, "normalize needs"),
        (r#"{"users": 2, "rate": 1}"#, "rate does not go"),
        (r#"{"users": 2, "burstiness": 2}"#, "burstiness does not go"),
        (r#"{"prefixes": 2}"#, "prefixes needs prefix"),
        (r#"{"prefix": 4294967295}"#, "prefix, input and output are"),
        (r#"{"input": "uniform:9:1"}"#, "input is 'uniform:9:1'"),
        (r#"{"input": "uniform:1:9", "range_ratio": 0.1}"#, "range_ratio needs input"),
        (r#"{"pause": -1}"#, "pause is '-1'"),
        (r#"{"turns": 0}"#, "turns is 0"),
        (r#"{"priorities": "high@1"}"#, "priorities has the part"),
        (r#"{"models": []}"#, "models has shares []"),
        (r#"{"models": [0, -1]}"#, "models has shares"),
        (r#"{"trace": {"path": "/nowhere"}, "input": 4}"#, "input does not go"),
        (r#"{"trace": {"path": "/nowhere"}}"#, "/nowhere: "),
    ] {
        let message = request(json).traffic(0).expect_err(json).to_string();
        assert!(message.starts_with(name), "{json}: {message}");
    }
    assert!(serde_json::from_str::<TrafficRequest>(r#"{"rte": 1}"#).is_err());
}
