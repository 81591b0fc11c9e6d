//! Which overload a call means: PostgreSQL's rules of function and operator type resolution.

use super::{ANY, ANYARRAY, ANYELEMENT, Overload};
use crate::planning::cast::{CastContext, cast_context};
use crate::planning::types::{array_of, category, element_of, is_preferred, oid};

pub struct Resolved<'a> {
    pub overload: &'a Overload,
    /// What each argument is to be cast to; polymorphic ones made concrete.
    pub arguments: Vec<u32>,
    pub returns: u32,
}

struct Candidate<'a> {
    overload: &'a Overload,
    arguments: Vec<u32>,
}

fn is_polymorphic(t: u32) -> bool {
    matches!(t, ANY | ANYELEMENT | ANYARRAY)
}

fn coercible(from: u32, to: u32) -> bool {
    match to {
        ANY | ANYELEMENT => true,
        ANYARRAY => from == oid::UNKNOWN || element_of(from).is_some(),
        _ => cast_context(from, to).is_some_and(|c| c == CastContext::Implicit),
    }
}

/// `None` = no function of the name takes these arguments, or more than one does equally well.
pub fn resolve<'a>(overloads: &'a [Overload], given: &[u32], operator: bool) -> Option<Resolved<'a>> {
    let mut candidates: Vec<Candidate<'a>> = overloads
        .iter()
        .filter_map(|overload| {
            let mut arguments = overload.arguments.clone();
            if overload.variadic && given.len() + 1 >= arguments.len() {
                let last = *arguments.last()?;
                arguments.truncate(arguments.len() - 1);
                while arguments.len() < given.len() {
                    arguments.push(last);
                }
            }
            (arguments.len() == given.len()).then_some(Candidate { overload, arguments })
        })
        .collect();
    // An operator's unknown side is first taken to be of the other's type.
    if operator && let [a, b] = given {
        let assumed = match (*a, *b) {
            (oid::UNKNOWN, other) if other != oid::UNKNOWN => Some([other, other]),
            (other, oid::UNKNOWN) if other != oid::UNKNOWN => Some([other, other]),
            _ => None,
        };
        if let Some(assumed) = assumed
            && let Some(at) = candidates.iter().position(|c| c.arguments == assumed)
        {
            return finish(candidates.swap_remove(at), given);
        }
    }
    if let Some(at) = candidates.iter().position(|c| c.arguments == given) {
        return finish(candidates.swap_remove(at), given);
    }
    candidates
        .retain(|c| c.arguments.iter().zip(given).all(|(to, from)| coercible(*from, *to)) && consistent(c, given));
    let best = |candidates: &mut Vec<Candidate<'a>>, score: &dyn Fn(&Candidate<'a>) -> usize| {
        let top = candidates.iter().map(score).max().unwrap_or(0);
        candidates.retain(|c| score(c) == top);
    };
    best(&mut candidates, &|c| c.arguments.iter().zip(given).filter(|(to, from)| to == from).count());
    best(&mut candidates, &|c| {
        c.arguments
            .iter()
            .zip(given)
            .filter(|(to, from)| {
                to == from || **from != oid::UNKNOWN && is_preferred(**to) && category(**to) == category(**from)
            })
            .count()
    });
    if candidates.len() > 1 {
        settle_unknown(&mut candidates, given);
    }
    if candidates.len() > 1 {
        // All known arguments of one type: the unknown ones are taken to be of it too.
        let mut known = given.iter().filter(|t| **t != oid::UNKNOWN);
        if let Some(first) = known.next().copied()
            && known.all(|t| *t == first)
            && let Some(at) = candidates.iter().position(|c| c.arguments.iter().all(|a| *a == first))
        {
            return finish(candidates.swap_remove(at), given);
        }
        // A concrete signature is better than a polymorphic one.
        if candidates.iter().any(|c| !c.arguments.iter().any(|a| is_polymorphic(*a))) {
            candidates.retain(|c| !c.arguments.iter().any(|a| is_polymorphic(*a)));
        }
    }
    match candidates.len() {
        1 => finish(candidates.pop()?, given),
        _ => None,
    }
}

fn settle_unknown(candidates: &mut Vec<Candidate<'_>>, given: &[u32]) {
    for (i, t) in given.iter().enumerate() {
        if *t != oid::UNKNOWN {
            continue;
        }
        let categories: Vec<char> = candidates.iter().map(|c| category(c.arguments[i])).collect();
        let chosen = if categories.contains(&'S') {
            'S'
        } else if categories.windows(2).all(|w| w[0] == w[1]) {
            categories[0]
        } else {
            return;
        };
        candidates.retain(|c| category(c.arguments[i]) == chosen);
        if candidates.iter().any(|c| is_preferred(c.arguments[i])) {
            candidates.retain(|c| is_preferred(c.arguments[i]));
        }
    }
}

/// All of a call's `anyelement` and `anyarray` agree on one element type.
fn consistent(candidate: &Candidate<'_>, given: &[u32]) -> bool {
    element(candidate, given).is_ok()
}

fn element(candidate: &Candidate<'_>, given: &[u32]) -> Result<Option<u32>, ()> {
    let mut found: Option<u32> = None;
    for (to, from) in candidate.arguments.iter().zip(given) {
        let this = match *to {
            _ if *from == oid::UNKNOWN => continue,
            ANYELEMENT => *from,
            ANYARRAY => element_of(*from).ok_or(())?,
            _ => continue,
        };
        match found {
            None => found = Some(this),
            Some(before) if before == this => {}
            Some(before) if cast_context(this, before) == Some(CastContext::Implicit) => {}
            Some(before) if cast_context(before, this) == Some(CastContext::Implicit) => found = Some(this),
            Some(_) => return Err(()),
        }
    }
    Ok(found)
}

fn finish<'a>(candidate: Candidate<'a>, given: &[u32]) -> Option<Resolved<'a>> {
    let element = element(&candidate, given).ok()?;
    let concrete = |t: u32, from: Option<u32>| -> Option<u32> {
        match t {
            ANYELEMENT => Some(element.unwrap_or(oid::TEXT)),
            ANYARRAY => match element {
                Some(e) => array_of(e),
                None => Some(1009),
            },
            ANY => Some(match from {
                Some(oid::UNKNOWN) | None => oid::TEXT,
                Some(from) => from,
            }),
            other => Some(other),
        }
    };
    let arguments =
        candidate.arguments.iter().zip(given).map(|(t, from)| concrete(*t, Some(*from))).collect::<Option<Vec<_>>>()?;
    let returns = concrete(candidate.overload.returns, None)?;
    Some(Resolved { overload: candidate.overload, arguments, returns })
}
