use std::fs;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::super::conversation::{Conversation, PromptSegment};
use super::super::traffic_request::TrafficRequest;
use super::*;

/// A file that goes with its name.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("trn3_trace_{}_{number}_{name}", process::id()));
        fs::write(&path, bytes).expect("writes");
        Self(path)
    }

    fn trace(&self) -> TraceRequest {
        TraceRequest::of(&self.0)
    }

    fn read(&self) -> RecordedTraffic {
        self.trace().read(true, None, None).expect("reads")
    }

    /// The message of a refusal, without the folder of the file.
    fn refusal(&self, trace: &TraceRequest) -> String {
        let message = trace.read(true, None, None).expect_err("is refused").to_string();
        message.replace(&self.0.display().to_string(), "FILE")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const AZURE_2023: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                          2023-11-16 23:59:59.9799600,374,44\n\
                          2023-11-16 23:59:59.9799601,396,109\n\
                          2023-11-17 00:00:01.4799600,879,55\n";
const AZURE_2024: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                          2024-02-28 23:00:00.009930+00:00,2162,5\r\n\
                          2024-02-29 00:00:00+00:00,2399,6\r\n\
                          2024-03-01 01:00:00.009930+01:00,76,15\r\n";
const BURSTGPT: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                        5,ChatGPT,472,18,490,Conversation log\n\
                        45,ChatGPT,1087,0,1087,Conversation log\n\
                        118,GPT-4,417,276,693,API log\n";
const BURSTGPT_SESSIONS: &str = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                                 19440110.0,a-b,43,GPT-4,900,400,1300,Conversation log\n\
                                 19440112.5,a-b,2,ChatGPT,30,20,50,Conversation log\n";
const MOONCAKE: &str = r#"{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 2353]}
{"timestamp": 30535, "input_length": 1024, "output_length": 26, "hash_ids": [46, 2366]}

{"timestamp": 30535, "input_length": 700, "output_length": 1, "hash_ids": [46]}
"#;
const BAILIAN: &str = r#"{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.25, "input_length": 33, "output_length": 13, "type": "text", "turn": 1, "hash_ids": [9, 8, 7]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.5, "input_length": 40, "output_length": 8, "type": "text", "turn": 2}
"#;
const RESULT: &str = r#"{"date": "20260101", "num_prompts": 3, "completed": 2, "generated_texts": ["a{[", "", "\"b"],
 "input_lens": [10, 20, 30], "output_lens": [4, 0, 6], "itls": [[0.1, 0.2], [], []], "start_times": [7.5, 7.0, 7.25]}"#;
const CUSTOM: &str = "{\"prompt\": \"What is the capital?\"}\n{\"prompt\": \"Hi\", \"other\": 1}\n";
const SHAREGPT: &str = r#"[
 {"id": "a", "conversations": [{"from": "human", "value": "12345678"}, {"from": "gpt", "value": "1234"},
   {"from": "human", "value": "123"}, {"from": "gpt", "value": "12345"}, {"from": "human", "value": "and?"}]},
 {"id": "b", "conversations": [{"from": "gpt", "value": "no prompt"}]},
 {"id": "c", "conversations": [{"from": "system", "value": "1234"}, {"from": "human", "value": "1"},
   {"from": "gpt", "value": "1"}]}
]"#;
const PLAIN: &str = "arrival,input,output,priority,model,session\n\
                     10,100,10,,1,x\n\
                     10.5,50,5,-2,0,y\n\
                     12,150,20,3,1,x\n\
                     13,10,20,3,1,x\n\
                     13,7,3,,,\n";
const PLAIN_LINES: &str = "{\"input\": 5, \"output\": 6}\n{\"input\": 7, \"output\": 8}\n";

fn figures(conversations: impl Iterator<Item = Conversation>) -> Vec<(f64, u32, u32)> {
    let turns = conversations.flat_map(|one| {
        let at = one.at;
        one.turns.into_iter().map(move |turn| (at, turn.input, turn.output))
    });
    turns.collect()
}

fn pairs(segments: &[PromptSegment]) -> Vec<(u64, u32)> {
    segments.iter().map(|segment| (segment.number, segment.tokens)).collect()
}

#[test]
fn test_azure_times_keep_their_ticks_over_midnight_months_and_zones() {
    let early = figures(Written::new("azure.csv", AZURE_2023).read());
    assert_eq!(early, [(0.0, 374, 44), (1e-7, 396, 109), (1.5, 879, 55)]);
    let late = figures(Written::new("azure.csv", AZURE_2024).read());
    assert_eq!(late, [(0.0, 2162, 5), (3600.0 - 0.009_93, 2399, 6), (90_000.0, 76, 15)]);
}

#[test]
fn test_burstgpt_leaves_out_failures_and_says_so() {
    let file = Written::new("burst.csv", BURSTGPT);
    let trace = file.read();
    assert_eq!(trace.models(), 1);
    assert!(
        trace.said()[0].ends_with("1 requests without tokens of a prompt or an answer, which failed, are left out")
    );
    assert_eq!(figures(trace), [(0.0, 472, 18), (113.0, 417, 276)]);
    let models = vec!["GPT-4".to_owned(), "ChatGPT".to_owned()];
    let by_model = TraceRequest { models: models.clone(), ..file.trace() }.read(true, None, None).unwrap();
    assert_eq!((by_model.models(), by_model.map(|one| one.model).collect::<Vec<_>>()), (2, vec![1, 0]));
    let one = TraceRequest { models: models[..1].to_vec(), ..file.trace() }.read(true, None, None).unwrap();
    assert!(
        one.said().iter().any(|said| said.ends_with("2 requests for other models are left out")),
        "{:?}",
        one.said()
    );
    assert_eq!(figures(one), [(0.0, 417, 276)]);
    assert_eq!(figures(Written::new("burst.csv", BURSTGPT_SESSIONS).read()), [(0.0, 900, 400), (2.5, 30, 20)]);
}

#[test]
fn test_hashes_are_blocks_of_prompts() {
    let trace = Written::new("mooncake.jsonl", MOONCAKE).read();
    let conversations: Vec<Conversation> = trace.collect();
    assert_eq!(figures(conversations.iter().cloned()), [(0.0, 1100, 52), (3.053, 1024, 26), (3.053, 700, 1)]);
    let segments: Vec<_> = conversations.iter().map(|one| pairs(&one.turns[0].segments)).collect();
    assert_eq!(segments[0], [(46, 512), (47, 512), (2353, 76)], "the last block is what is left");
    assert_eq!(segments[1], [(46, 512), (2366, 512)]);
    assert_eq!(segments[2], [(46, 512)], "what no hash says is the prompt's own");
    let conversations: Vec<Conversation> = Written::new("bailian.jsonl", BAILIAN).read().collect();
    assert_eq!(figures(conversations.iter().cloned()), [(0.0, 33, 13), (0.25, 40, 8)]);
    assert_eq!(pairs(&conversations[0].turns[0].segments), [(9, 16), (8, 16), (7, 1)]);
    assert!(conversations[1].turns[0].segments.is_empty());
}

#[test]
fn test_keys_of_mooncake_are_vllms_if_it_is_said() {
    let text = r#"{"timestamp": 2.5, "input_length": 20, "output_length": 5, "hash_ids": [1, 2]}"#;
    let file = Written::new("timed.jsonl", text);
    assert!(file.refusal(&file.trace()).contains("at most 1 hashes, one for each 512 of 20 tokens"));
    let timed = TraceRequest { format: Some("vllm_timed".to_owned()), ..file.trace() };
    let conversations: Vec<Conversation> = timed.read(true, None, None).unwrap().collect();
    assert_eq!(pairs(&conversations[0].turns[0].segments), [(1, 16), (2, 4)]);
    let wide = TraceRequest { block: Some(12), ..file.trace() };
    assert_eq!(pairs(&wide.read(true, None, None).unwrap().next().unwrap().turns[0].segments), [(1, 12), (2, 8)]);
}

#[test]
fn test_results_of_the_benchmark_are_sorted_by_their_start() {
    for text in [RESULT.to_owned(), RESULT.replace('\n', " ")] {
        let trace = Written::new("result.json", text).read();
        assert!(trace.said()[0].contains(": 1 requests without tokens"));
        assert_eq!(figures(trace), [(0.0, 30, 6), (0.25, 10, 4)]);
    }
    let untimed = Written::new("result.json", r#"{"input_lens": [1, 2], "output_lens": [3, 4]}"#).read();
    assert!(!untimed.is_timed());
    assert_eq!(figures(untimed), [(0.0, 1, 3), (0.0, 2, 4)]);
    let uneven = Written::new("result.json", r#"{"input_lens": [1, 2], "output_lens": [3]}"#);
    assert!(uneven.refusal(&uneven.trace()).contains("has 2 input_lens, 1 output_lens"));
    let broken = Written::new("result.json", "{\n \"input_lens\": [1,\n 2.5]}");
    assert!(broken.refusal(&broken.trace()).starts_with("FILE:3: "), "{}", broken.refusal(&broken.trace()));
}

#[test]
fn test_texts_are_counted_by_bytes_or_by_a_function() {
    let custom = Written::new("custom.jsonl", CUSTOM);
    let json = format!(r#"{{"trace": {{"path": {:?}}}, "output": 9}}"#, custom.0);
    let request: TrafficRequest = serde_json::from_str(&json).unwrap();
    let traffic = request.traffic(0).unwrap();
    assert!(traffic.said()[0].ends_with("tokens of its texts are counted as 4 bytes each"));
    assert_eq!(traffic.longest(), 14);
    assert_eq!(figures(traffic), [(0.0, 5, 9), (0.0, 1, 9)]);
    let words = |text: &str| text.split(' ').count() as u64;
    let traffic = request.traffic_counting(0, Some(&words)).unwrap();
    assert!(traffic.said().is_empty());
    assert_eq!(figures(traffic), [(0.0, 4, 9), (0.0, 1, 9)]);
}

#[test]
fn test_shared_conversations_are_turns() {
    let lines: Vec<String> =
        serde_json::from_str::<Vec<Value>>(SHAREGPT).unwrap().iter().map(Value::to_string).collect();
    for text in [SHAREGPT.to_owned(), lines.join("\n")] {
        let file = Written::new("share.json", text);
        let trace = file.read();
        assert_eq!((trace.requests(), trace.conversations(), trace.is_timed()), (3, 2, false));
        assert!(trace.said()[0].contains("1 conversations without an answer"), "{:?}", trace.said());
        let conversations: Vec<Conversation> = trace.collect();
        let turns: Vec<_> = conversations.iter().map(|one| figures([one.clone()].into_iter())).collect();
        assert_eq!(turns, [vec![(0.0, 2, 1), (0.0, 4, 2)], vec![(0.0, 2, 1)]]);
        let [first, second] = &conversations[0].turns[..] else { panic!("has two turns") };
        assert_eq!((pairs(&first.segments), first.answer), (vec![(0, 2)], Some(1)));
        assert_eq!((pairs(&second.segments), second.answer), (vec![(0, 2), (1, 1)], None));
        let firsts = TraceRequest { turns: Some(1), ..file.trace() }.read(true, None, None).unwrap();
        assert_eq!(figures(firsts), [(0.0, 2, 1), (0.0, 2, 1)]);
        let some = file.trace().read(true, Some(1), None).unwrap();
        assert_eq!(figures(some), [(0.0, 2, 1)]);
    }
    let file = Written::new("share.json", SHAREGPT.replace("gpt", "cat"));
    assert!(file.refusal(&file.trace()).starts_with("FILE: conversation 0: column from is 'cat'; needed: human,"));
}

#[test]
fn test_sessions_share_what_was_said_at_their_recorded_times() {
    let trace = Written::new("plain.csv", PLAIN).read();
    assert!(trace.has_priorities() && trace.models() == 2);
    let conversations: Vec<Conversation> = trace.collect();
    let times: Vec<f64> = conversations.iter().map(|one| one.at).collect();
    assert_eq!(times, [0.0, 0.5, 2.0, 3.0, 3.0]);
    let turns: Vec<_> = conversations.iter().map(|one| &one.turns[0]).collect();
    assert_eq!(turns.iter().map(|turn| turn.priority).collect::<Vec<_>>(), [0, -2, 3, 3, 0]);
    assert_eq!(pairs(&turns[0].segments), [(0, 100)]);
    assert_eq!(pairs(&turns[2].segments), [(0, 100), (1, 10), (2, 40)]);
    assert_eq!((turns[0].answer, turns[2].answer), (Some(1), Some(3)));
    assert!(turns[3].segments.is_empty(), "it is shorter than what was said before it");
    assert!(turns[1].segments.is_empty() && turns[4].segments.is_empty(), "they are alone in their sessions");
}

#[test]
fn test_sessions_are_conversations_without_their_times() {
    let file = Written::new("plain.csv", PLAIN);
    let trace = file.trace().read(false, None, None).unwrap();
    assert_eq!((trace.requests(), trace.conversations()), (5, 3));
    let inputs: Vec<Vec<u32>> = trace.map(|one| one.turns.iter().map(|turn| turn.input).collect()).collect();
    assert_eq!(inputs, [vec![100, 150, 10], vec![50], vec![7]]);
    let json = format!(r#"{{"trace": {{"path": {:?}}}, "users": 2, "pause": 1.5}}"#, file.0);
    let traffic = serde_json::from_str::<TrafficRequest>(&json).unwrap().traffic(0).unwrap();
    assert_eq!((traffic.requests(), traffic.users()), (5, Some(2)));
    assert!(traffic.map(|one| (one.at, one.pause)).all(|pair| pair == (1.5, 1.5)));
    let json = format!(r#"{{"trace": {{"path": {:?}}}, "rate": 4, "arrival": "constant"}}"#, file.0);
    let traffic = serde_json::from_str::<TrafficRequest>(&json).unwrap().traffic(0).unwrap();
    let times: Vec<f64> = traffic.map(|one| one.at).collect();
    // Five requests of three conversations at four a second: a conversation every 5/12 s.
    assert!(times.iter().zip(1..).all(|(at, number)| (at - f64::from(number) * 5.0 / 12.0).abs() < 1e-12), "{times:?}");
}

#[test]
fn test_parts_of_a_trace_at_another_speed() {
    let rows: Vec<String> = (0..100).map(|number| format!("{},{},1", 2 * number, number + 1)).collect();
    let file = Written::new("plain.csv", format!("arrival,input,output\n{}\n", rows.join("\n")));
    let trace = TraceRequest { offset: 10, rate_scale: Some(4.0), ..file.trace() };
    let found = figures(trace.read(true, Some(3), None).unwrap());
    assert_eq!(found, [(0.0, 11, 1), (0.5, 12, 1), (1.0, 13, 1)]);
    let short = trace.read(true, Some(91), None).unwrap_err().to_string();
    assert!(short.starts_with("requests is 91, and ") && short.contains("has 90 from trace.offset 10 on"), "{short}");
    assert!(TraceRequest { offset: 100, ..file.trace() }.read(true, None, None).is_err());
    assert!(TraceRequest { rate_scale: Some(0.0), ..file.trace() }.read(true, None, None).is_err());
    let replaced = TraceRequest { rate_scale: Some(2.0), ..file.trace() }.read(false, None, None).unwrap_err();
    assert!(replaced.to_string().starts_with("trace.rate_scale is of recorded times"));
}

#[test]
fn test_what_a_trace_says_itself_is_not_asked_for() {
    let (plain, azure) = (Written::new("plain.csv", PLAIN), Written::new("azure.csv", AZURE_2023));
    for (file, field, value, name) in [
        (&plain, "models", "[1, 1]", "the trace says models"),
        (&plain, "priorities", "\"0@1\"", "the trace says priorities"),
        (&azure, "output", "4", "the trace says output"),
        (&azure, "arrival", "\"poisson\"", "arrival does not go"),
        (&azure, "requests", "4", "requests is 4"),
    ] {
        let json = format!(r#"{{"trace": {{"path": {:?}}}, "{field}": {value}}}"#, file.0);
        let request: TrafficRequest = serde_json::from_str(&json).expect("is a request");
        let message = request.traffic(0).expect_err(field).to_string();
        assert!(message.starts_with(name), "{field}: {message}");
    }
    let json = format!(r#"{{"trace": {{"path": {:?}}}, "models": [1, 1], "priorities": "4@1"}}"#, azure.0);
    let traffic = serde_json::from_str::<TrafficRequest>(&json).unwrap().traffic(0).unwrap();
    assert!(traffic.flat_map(|one| one.turns).all(|turn| turn.priority == 4));
}

#[test]
fn test_broken_lines_are_named() {
    for (name, text, refusal) in [
        (
            "a.csv",
            AZURE_2023.replace("396", "x"),
            "FILE:3: column ContextTokens is 'x'; needed: tokens, a whole number",
        ),
        ("a.csv", AZURE_2023.replace("396", "-1"), "FILE:3: column ContextTokens is '-1'"),
        ("a.csv", AZURE_2023.replace("396", "4294967296"), "FILE:3: column ContextTokens is '4294967296'"),
        ("a.csv", AZURE_2023.replace("396", ""), "FILE:3: column ContextTokens is blank"),
        ("a.csv", AZURE_2023.replace("396,", ""), "FILE:3: has 2 columns; needed: 3"),
        ("a.csv", AZURE_2023.replace("11-17", "11-31"), "FILE:4: column TIMESTAMP is '2023-11-31 00"),
        ("a.csv", AZURE_2023.replace("11-17", "11-15"), "FILE:4: the request is 172798.5000001 s earlier"),
        (
            "a.csv",
            AZURE_2023.replace("TIMESTAMP", "TIME"),
            "FILE:1: the columns TIME, ContextTokens, GeneratedTokens are of",
        ),
        ("b.csv", BURSTGPT.replace("118", ""), "FILE:4: column Timestamp is blank; needed: a time"),
        ("b.csv", BURSTGPT.replace("118", "nan"), "FILE:4: column Timestamp is 'nan'; needed: a number"),
        ("p.csv", PLAIN.replace("12,150", "12,0"), "FILE:4: column input is 0; needed: at least 1 token"),
        ("p.csv", PLAIN.replace("12,", "1e999,"), "FILE:4: column arrival is '1e999'; needed: a number"),
        ("p.csv", PLAIN.replace("12,", ","), "FILE:4: some requests have a time of arrival and some have none"),
        ("p.csv", PLAIN.replace("-2,0", "-2,gpt"), "FILE:3: column model is 'gpt'; needed: the number of a model"),
        ("p.csv", PLAIN.replace("-2,0", "1.5,0"), "FILE:3: column priority is '1.5'; needed: an integer"),
        ("p.csv", PLAIN.replace("session", "user"), "FILE:1: column user is unknown; needed: some of arrival, input"),
        ("p.csv", "arrival,input,output\n".to_owned(), "FILE: has no requests"),
        ("m.jsonl", MOONCAKE.replace("1024", "\"a\""), "FILE:2: column input_length is \"a\"; needed: tokens"),
        ("m.jsonl", MOONCAKE.replace("700,", "700"), "FILE:4: is no JSON object of a trace: "),
        ("m.jsonl", MOONCAKE.replace("2366", "-1"), "FILE:2: column hash_ids is [46,-1]; needed: a list of whole"),
        ("m.jsonl", MOONCAKE.replace("30535, \"input_length\": 700", "1"), "FILE:4: column input_length is not there"),
        ("m.jsonl", MOONCAKE.replace("{\"timestamp\": 27482", "{\"time\" 4"), "FILE:1: is no JSON object: "),
        ("j.jsonl", "{\"input\": 1, \"outputs\": 2, \"output\": 3}".to_owned(), "FILE:1: column outputs is unknown"),
        ("j.jsonl", "{\"in\": 1}".to_owned(), "FILE:1: the columns in are of no known trace; known: vllm_result"),
        ("s.json", SHAREGPT.replace("\"c\", ", "\"c\" "), "FILE:5: "),
        ("e.csv", "\n\n".to_owned(), "FILE: is empty"),
    ] {
        let file = Written::new(name, &text);
        let message = file.refusal(&file.trace());
        assert!(message.starts_with(refusal), "{refusal}\n{message}");
    }
    let bytes = Written::new("x.csv", b"arrival,input,output\n1,\xff,1\n");
    assert!(bytes.refusal(&bytes.trace()).starts_with("FILE:2: is no UTF-8 text"));
    let packed = Written::new("x.csv.gz", b"\x1f\x8b\x08\x00\x00\xff");
    assert!(packed.refusal(&packed.trace()).contains("a compressed file has to be unpacked first"));
}

#[test]
fn test_an_order_of_time_is_made_if_asked_for() {
    let file = Written::new("plain.csv", "arrival,input,output\n3,3,1\n1,1,1\n2,2,1\n1,9,1\n");
    assert!(file.refusal(&file.trace()).starts_with("FILE:3: the request is 2 s earlier than the one before it"));
    let sorted = TraceRequest { sort: true, ..file.trace() };
    let found = figures(sorted.read(true, Some(3), None).unwrap());
    assert_eq!(found, [(0.0, 1, 1), (0.0, 9, 1), (1.0, 2, 1)]);
    let rest = TraceRequest { offset: 2, ..sorted }.read(true, None, None).unwrap();
    assert_eq!(figures(rest), [(0.0, 2, 1), (1.0, 3, 1)]);
    assert!(file.trace().read(false, None, None).is_ok(), "lengths alone have no order");
}

#[test]
fn test_quoted_fields_and_byte_order_marks_are_read() {
    let text = "\u{feff}\"arrival\", input ,\"output\",session\n0,\"5\",6,\"a,\"\"b\"\"\"\n1,7,8,\"a,\"\"b\"\"\"\n";
    let trace = Written::new("plain.csv", text).read();
    let conversations: Vec<Conversation> = trace.collect();
    assert_eq!(figures(conversations.iter().cloned()), [(0.0, 5, 6), (1.0, 7, 8)]);
    assert!(conversations[0].turns[0].answer.is_some(), "both are of one session");
}

#[test]
fn test_only_regular_files_are_opened() {
    for path in ["/dev/zero", "/dev/stdin", "/proc/self"] {
        if Path::new(path).exists() {
            let refused = TraceRequest::of(path).read(true, None, None).unwrap_err().to_string();
            assert!(refused.ends_with("is not a regular file"), "{refused}");
        }
    }
    let pipe = Written::new("pipe", "");
    fs::remove_file(&pipe.0).expect("was written");
    if process::Command::new("mkfifo").arg(&pipe.0).status().is_ok_and(|status| status.success()) {
        assert_eq!(pipe.refusal(&pipe.trace()), "FILE: is not a regular file", "without waiting for a writer");
    }
    assert!(TraceRequest::of("/nowhere.csv").read(true, None, None).is_err());
}

/// A line without an end is refused long before it is read whole.
#[test]
fn test_lines_have_a_bound() {
    let long = "1".repeat(lines::LONGEST_LINE as usize + 2);
    let file = Written::new("plain.csv", format!("arrival,input,output\n{long}"));
    assert!(file.refusal(&file.trace()).starts_with("FILE:2: the line has more than"));
    let text = format!(r#"[{{"conversations": [{{"from": "human", "value": "{long}{long}"}}]}}]"#);
    let file = Written::new("share.json", text);
    assert!(file.refusal(&file.trace()).contains("one conversation has more than"), "{}", file.refusal(&file.trace()));
}

/// What comes after the requests that are wanted is not looked at.
#[test]
fn test_no_more_is_read_than_is_wanted() {
    for (name, text) in [
        ("plain.csv", "arrival,input,output\n1,2,3\nbroken\n".to_owned()),
        ("plain.jsonl", format!("{PLAIN_LINES}broken\n")),
        ("share.json", SHAREGPT.replace("{\"id\": \"b\"", "broken")),
    ] {
        let file = Written::new(name, text);
        assert!(file.trace().read(true, Some(1), None).is_ok(), "{name}");
        assert!(file.trace().read(true, None, None).is_err(), "{name}");
    }
}

#[test]
fn test_a_format_that_the_file_has_not_is_refused() {
    let file = Written::new("azure.csv", AZURE_2023);
    for (format, refusal) in [
        ("burstgpt", "FILE:1: column Timestamp is not there; needed: Timestamp, Model"),
        ("sharegpt", "FILE"),
        ("asure", "trace format \"asure\" is unknown"),
    ] {
        let trace = TraceRequest { format: Some(format.to_owned()), ..file.trace() };
        assert!(file.refusal(&trace).starts_with(refusal), "{format}: {}", file.refusal(&trace));
    }
    for layout in TraceLayout::ALL {
        assert_eq!(TraceLayout::parse(layout.name()).unwrap(), layout);
    }
    let turns = TraceRequest { turns: Some(1), ..file.trace() };
    assert!(file.refusal(&turns).starts_with("trace.turns is of conversations of texts; FILE is azure"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any bytes are a trace or refused with the file's name, by whatever form they begin with.
    #[test]
    fn test_no_bytes_make_it_panic(
        head in prop::sample::select(vec![
            AZURE_2023, AZURE_2024, BURSTGPT, MOONCAKE, BAILIAN, RESULT, CUSTOM, SHAREGPT, PLAIN, PLAIN_LINES, "",
        ]),
        keep in 0_usize..400,
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        timed in any::<bool>(),
    ) {
        let mut text = head.as_bytes()[..keep.min(head.len())].to_vec();
        text.extend(bytes);
        let file = Written::new("any", text);
        match file.trace().read(timed, None, None) {
            Ok(trace) => prop_assert_eq!(trace.requests(), figures(trace).len() as u64),
            Err(error) => prop_assert!(error.to_string().contains("trn3_trace_"), "{}", error),
        }
    }

    /// One broken byte in a trace names a line of it, or changes what is read.
    #[test]
    fn test_a_broken_byte_is_found_on_its_line(place in 0_usize..60, byte in prop::sample::select(b"x-,\"".to_vec())) {
        let mut text = AZURE_2023.as_bytes().to_vec();
        let place = 41 + place;
        text[place] = byte;
        let line = 1 + text[..place].iter().filter(|&&byte| byte == b'\n').count();
        let file = Written::new("azure.csv", text);
        if let Err(error) = file.trace().read(true, None, None) {
            let told = error.to_string();
            let next = format!(":{}: the request is", line + 1);
            prop_assert!(told.contains(&format!(":{line}: ")) || told.contains(&next) || told.contains(":2: "), "{}", told);
        }
    }

    /// Nothing is lost or made between a file and the traffic of it.
    #[test]
    fn test_traces_are_conserved(
        rows in prop::collection::vec((0_u32..50, 1_u32..5_000, 1_u32..900, 0_u8..5), 1..60), scale in 1_u32..9,
    ) {
        let mut text = "arrival,input,output,session\n".to_owned();
        let mut now = 0;
        let mut expected = Vec::new();
        for &(wait, input, output, session) in &rows {
            now += wait;
            expected.push((f64::from(now - rows[0].0) / f64::from(scale), input, output));
            text.push_str(&format!("{now},{input},{output},s{session}\n"));
        }
        let file = Written::new("plain.csv", text);
        let trace = TraceRequest { rate_scale: Some(f64::from(scale)), ..file.trace() };
        prop_assert_eq!(figures(trace.read(true, None, None).unwrap()), expected);
        let mut lengths: Vec<(u32, u32)> = rows.iter().map(|row| (row.1, row.2)).collect();
        let untimed = file.trace().read(false, None, None).unwrap();
        prop_assert_eq!(untimed.requests(), rows.len() as u64);
        let conversations: Vec<Conversation> = untimed.clone().collect();
        prop_assert_eq!(conversations.len() as u64, untimed.conversations());
        for turn in conversations.iter().flat_map(|one| &one.turns) {
            let shared: u32 = turn.segments.iter().map(|segment| segment.tokens).sum();
            prop_assert!(shared <= turn.input && (turn.answer.is_none() || shared == turn.input));
        }
        let mut found: Vec<(u32, u32)> = figures(conversations.into_iter()).iter().map(|row| (row.1, row.2)).collect();
        lengths.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, lengths);
    }
}
