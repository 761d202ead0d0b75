use std::collections::HashSet;

use proptest::prelude::*;
use rand::SeedableRng;

use super::*;

fn lengths(text: &str) -> Lengths {
    Lengths::new("length", &text.into(), None).expect("is a distribution")
}

fn sessions(turns: &str, prefix: u32, prefixes: u64, longest_context: u32, seed: u64) -> Sessions {
    let shape = SessionShape {
        input: lengths("uniform:1:90"),
        output: lengths("uniform:1:40"),
        turns: lengths(turns),
        prefix,
        prefixes,
        longest_context,
    };
    let mut root = Pcg64::seed_from_u64(seed);
    let [input, output, turns, prefixes] = std::array::from_fn(|_| Pcg64::from_rng(&mut root));
    Sessions::new(shape, SessionStreams { input, output, turns, prefixes })
}

fn tokens(segments: &[PromptSegment]) -> u32 {
    segments.iter().map(|segment| segment.tokens).sum()
}

proptest! {
    /// A prompt begins with all of the one before and its answer; numbers are a conversation's own.
    #[test]
    fn test_prompts_hold_what_was_said(
        most in 1_u32..9, prefix in 0_u32..100, prefixes in 1_u64..4, seed in any::<u64>()
    ) {
        let mut sessions = sessions(&format!("uniform:1:{most}"), prefix, prefixes, u32::MAX, seed);
        let longest = sessions.longest();
        let mut taken = HashSet::new();
        for _ in 0..20 {
            let turns = sessions.turns(u64::MAX);
            prop_assert!((1..=most as usize).contains(&turns.len()));
            for (turn, next) in turns.iter().zip(turns.iter().skip(1)) {
                let answer = PromptSegment { number: turn.answer.expect("has a next turn"), tokens: turn.output };
                prop_assert_eq!(tokens(&turn.segments), turn.input);
                prop_assert!(next.segments.starts_with(&[turn.segments.clone(), vec![answer]].concat()));
                prop_assert!(taken.insert(answer.number) && answer.number >= prefixes);
                prop_assert!(next.input > turn.input + turn.output);
            }
            for turn in &turns {
                prop_assert!(u64::from(turn.input) + u64::from(turn.output) <= longest);
                let of_prefix = turn.segments.first().filter(|segment| segment.number < prefixes);
                prop_assert_eq!(of_prefix.map_or(0, |segment| segment.tokens), prefix);
            }
            let last = turns.last().expect("has one");
            prop_assert_eq!(last.answer, None);
            prop_assert!(tokens(&last.segments) < last.input);
            for segment in last.segments.iter().filter(|segment| segment.number >= prefixes) {
                prop_assert!(taken.insert(segment.number) || turns.iter().any(|turn| turn.answer == Some(segment.number)));
            }
        }
    }

    #[test]
    fn test_conversations_end_at_the_longest_context(limit in 1_u32..2_000, seed in any::<u64>()) {
        let mut sessions = sessions("50", 0, 1, limit, seed);
        prop_assert!(sessions.longest() <= u64::from(limit.max(130)));
        for _ in 0..10 {
            let turns = sessions.turns(u64::MAX);
            prop_assert!(turns.iter().skip(1).all(|turn| turn.input + turn.output <= limit));
        }
    }
}

#[test]
fn test_every_prefix_is_as_likely() {
    let mut sessions = sessions("1", 64, 4, u32::MAX, 1);
    let mut counts = [0_u32; 4];
    for _ in 0..8_000 {
        counts[sessions.turns(1)[0].segments[0].number as usize] += 1;
    }
    assert!(counts.iter().all(|count| count.abs_diff(2_000) < 160), "{counts:?}");
}

#[test]
fn test_no_more_turns_than_asked_for() {
    let mut sessions = sessions("8", 0, 1, u32::MAX, 0);
    assert_eq!((sessions.turns(3).len(), sessions.turns(u64::MAX).len()), (3, 8));
    assert!(sessions.turns(1)[0].segments.is_empty(), "a request alone shares nothing");
}
