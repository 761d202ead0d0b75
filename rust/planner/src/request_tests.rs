use super::*;

fn planned(body: &str) -> Result<serde_json::Value> {
    let request = PlanRequest::parse(&format!("{{{body}}}"))?;
    Ok(serde_json::to_value(request.plan()?).expect("has a form"))
}

const GPT: &str = r#""model": {"name": "gpt-oss-120b"}, "system": {"name": "gen2"}"#;

#[test]
fn test_plan_has_everything_a_screen_needs() {
    let plan = planned(&format!(r#"{GPT}, "input": 10000, "output": 3000, "tp": 8, "batch": 8"#)).expect("fits");
    assert_eq!((plan["layout"]["ep"].as_u64(), plan["layout"]["replicas"].as_u64()), (Some(8), Some(72)));
    assert_eq!(plan["dtypes"]["experts"], "mxfp4");
    for path in ["ttft", "tpot", "tokens_per_second_per_chip", "served_tokens_per_second_per_chip"] {
        assert!(plan[path].as_f64().is_some_and(|number| number > 0.0), "{path}");
    }
    assert!(plan["energy"]["watts_per_chip"].as_f64().is_some_and(|watts| (300.0..1100.0).contains(&watts)));
    assert!(plan["cost"]["per_million_tokens"].as_f64().is_some_and(|dollars| dollars > 0.0));
    let said = plan["assumptions"].as_array().expect("a list");
    for needle in ["layer overhead: 118 us", "TDP of trainium3", "price: 1 USD", "DMA engines"] {
        assert!(said.iter().any(|text| text.as_str().is_some_and(|text| text.contains(needle))), "{needle}");
    }
}

#[test]
fn test_plan_without_degrees_searches() {
    let plan = planned(&format!(r#"{GPT}, "input": 10000, "output": 3000, "ttft_slo": 1.0"#)).expect("some");
    assert!(plan["ttft"].as_f64().is_some_and(|seconds| seconds <= 1.0));
    assert!(plan["searched"]["evaluated"].as_u64().is_some_and(|count| count > 100));
}

#[test]
fn test_requests_are_refused_by_key() {
    for (body, needle) in [
        (format!(r#"{GPT}, "input": 0"#), "input is 0"),
        (format!(r#"{GPT}, "input": 10, "batch": 0, "tp": 8"#), "batch is 0"),
        (format!(r#"{GPT}, "input": 10, "lnc": 4"#), "lnc is 4"),
        (format!(r#"{GPT}, "input": 10, "tq": 4"#), "tq"),
        (format!(r#"{GPT}, "input": 200000"#), "131072"),
        (format!(r#"{GPT}, "input": 10, "dtype": "int3""#), "int3"),
        (format!(r#"{GPT}, "input": 10, "objective": "speed""#), "speed"),
        (format!(r#"{GPT}, "input": 10, "tp": 8, "collectives": "guess""#), "schedules"),
        (format!(r#"{GPT}, "input": 10, "tp": 8, "tdp": -1"#), "tdp"),
        (format!(r#"{GPT}, "input": 10, "tp": 8, "price": "free""#), "free"),
        (format!(r#"{GPT}, "input": 10, "speculation": {{"length": 5, "accepted": 3}}"#), "draft"),
        (r#""model": {"name": "bert-large"}, "system": {"name": "gen2"}, "input": 1"#.to_owned(), "generates nothing"),
        (r#""model": {"name": "gpt5"}, "system": {"name": "gen2"}, "input": 1"#.to_owned(), "gpt5"),
        (r#""model": {"name": "gpt-oss"}, "system": {"name": "gen9"}, "input": 1"#.to_owned(), "gen9"),
    ] {
        let said = planned(&body).expect_err(&body).to_string();
        assert!(said.contains(needle), "{body}: {said}");
    }
}

#[test]
fn test_schedules_and_levels_agree_about_a_plan() {
    let tpot = |how: &str| {
        let body = format!(r#"{GPT}, "input": 10000, "tp": 8, "batch": 64, "collectives": "{how}""#);
        planned(&body).expect("fits")["tpot"].as_f64().expect("a number")
    };
    let ratio = tpot("schedules") / tpot("levels");
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn test_a_plan_says_what_a_megawatt_yields_and_a_request_draws() {
    let number = |plan: &serde_json::Value, path: &str| plan[path].as_f64();
    let plan = planned(&format!(r#"{GPT}, "input": 10000, "output": 3000, "tp": 8, "batch": 8"#)).expect("fits");
    let energy = &plan["energy"];
    let (joules, watts) = (energy["joules_per_token"].as_f64().expect("some"), energy["watts"].as_f64().expect("some"));
    let megawatt = number(&plan, "tokens_per_second_per_megawatt").expect("some");
    assert!((megawatt * joules / 1e6 - 1.0).abs() < 1e-12);
    let request = number(&plan, "joules_per_request").expect("some");
    assert!((request * number(&plan, "requests_per_second").expect("some") / watts - 1.0).abs() < 1e-12);
    assert!((request / (3000.0 * joules) - 1.0).abs() < 1e-9);
    let decoding = planned(&format!(r#"{GPT}, "input": 10000, "tp": 8"#)).expect("fits");
    assert!(decoding["joules_per_request"].is_null() && number(&decoding, "tokens_per_second_per_megawatt").is_some());
}

#[test]
fn test_eight_bit_serving_on_gpus_keeps_eight_bit_keys() {
    let dtype = |system: &str, dtype: &str| {
        let body = format!(
            r#""model": {{"name": "llama-2-7b"}}, "system": {{"name": "{system}"}}, "input": 2048, "output": 128,
            "batch": 64, "tp": 1, "report_overflow": true, "dtype": "{dtype}""#
        );
        planned(&body).expect("planned")
    };
    let gpu = dtype("h100", "fp8");
    assert_eq!((gpu["dtypes"]["kv"].as_str(), gpu["fits"].as_bool()), (Some("fp8"), Some(true)));
    assert_eq!(dtype("trn2", "fp8")["dtypes"]["kv"], "bf16");
    // Weights of eight bits in memory, products in sixteen.
    let (narrow, wide) = (dtype("trn1", "int8"), dtype("trn1", "bf16"));
    assert_eq!((narrow["dtypes"]["dense"].as_str(), narrow["dtypes"]["kv"].as_str()), (Some("int8"), Some("bf16")));
    let prompt = |plan: &serde_json::Value| plan["prefill"]["flops"]["bf16"].as_f64();
    assert!(narrow["tpot"].as_f64() < wide["tpot"].as_f64() && prompt(&narrow) == prompt(&wide));
}

#[test]
fn test_heads_are_padded_to_a_power_of_two_of_ranks_and_said() {
    let body = |tp: u64| {
        format!(
            r#""model": {{"name": "llama-2-13b"}}, "system": {{"name": "trn1"}}, "input": 1024, "output": 128, "tp": {tp}"#
        )
    };
    let plan = planned(&body(32)).expect("padded");
    let said = plan["assumptions"].to_string();
    assert!(said.contains("the 40 heads of queries are padded to 64, 2 a rank"), "{said}");
    assert!(!planned(&body(8)).expect("divides")["assumptions"].to_string().contains("padded"));
    let refused = planned(&body(3)).expect_err("no power of two").to_string();
    assert!(refused.contains("what divides: 1, 2, 4, 8"), "{refused}");
}

#[test]
fn test_replicas_beyond_one_system_say_so() {
    let body = r#""model": {"name": "llama-3.1-405b"}, "system": {"name": "trn2", "instances": 2}, "input": 8000,
        "pp": 2, "tp": 64"#;
    let plan = planned(body).expect("fits");
    let said = plan["assumptions"].to_string();
    assert!(said.contains("cross the network between systems"), "{said}");
}

#[test]
fn test_overflow_is_reported_on_request() {
    let body = r#""model": {"name": "gpt-oss-120b"}, "system": {"name": "trn2"}, "input": 10000, "tp": 8"#;
    assert!(matches!(planned(body), Err(Error::Memory(_))));
    let plan = planned(&format!(r#"{body}, "report_overflow": true"#)).expect("reported");
    assert_eq!(plan["fits"], false);
    assert!(plan["why_not"].as_str().is_some_and(|text| text.contains("the smallest replica")));
}

/// What a search promises and ranks by is what its plans say, with times of the simulated core too.
#[test]
fn test_search_judges_by_the_times_of_its_plans() {
    let body =
        r#""model": {"name": "llama-3.2-1b"}, "system": {"name": "trainium3"}, "input": 256, "objective": "tpot""#;
    let search = |more: &str| PlanRequest::parse(&format!("{{{body}{more}}}")).expect("parses").search();
    let found = search(r#", "times": "machine", "keep": 4"#).expect("some");
    let all: Vec<_> = [&found.best]
        .into_iter()
        .chain(&found.ranked)
        .map(|plan| serde_json::to_value(plan).expect("has a form"))
        .collect();
    let number = |plan: &serde_json::Value, key: &str| plan[key].as_f64().expect("a number");
    assert!(all.len() > 1 && all.windows(2).all(|pair| number(&pair[0], "tpot") <= number(&pair[1], "tpot")));
    for plan in &all {
        let degree = |name: &str| plan["layout"][name].as_u64().expect("a degree");
        let (tp, pp, replicas, batch) =
            (degree("tp"), degree("pp"), degree("replicas"), plan["workload"]["batch"].as_u64().expect("one"));
        let fixed = format!(
            r#""model": {{"name": "llama-3.2-1b"}}, "system": {{"name": "trainium3"}}, "input": 256, "times": "machine",
            "tp": {tp}, "pp": {pp}, "replicas": {replicas}, "batch": {batch}"#
        );
        assert_eq!(number(&planned(&fixed).expect("fits"), "tpot"), number(plan, "tpot"));
        assert!(plan["assumptions"][0].as_str().is_some_and(|text| text.contains("on the simulated trn3 core")));
    }
    // A promise between both kinds of times is kept by neither, and no layout is blamed that nobody gave.
    let roofline = search("").expect("some").best;
    let (short, long) =
        (number(&serde_json::to_value(&roofline).expect("has a form"), "tpot"), number(&all[0], "tpot"));
    assert!(short < long, "{short} {long}");
    let promise = format!(r#", "times": "machine", "tpot_slo": {}"#, f64::midpoint(short, long));
    let text = search(&promise).expect_err("too short").to_string();
    assert!(text.starts_with("none of") && !text.contains("given layout"), "{text}");
}
