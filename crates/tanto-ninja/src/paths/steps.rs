//! Work on many paths, in steps that each ask for the memory that the next one needs. Does not know the work.

/// Paths between two steps for one path, so that the memory for it comes while they are dealt with. From 8 to 32 it
/// makes no difference that could be measured.
const APART: usize = 16;

/// Places for the paths between their first step and their last.
const PLACES: usize = (2 * APART + 1).next_power_of_two();

/// Three steps for each path.
pub(super) trait Steps {
    /// What is known of a path from one step to the next.
    type Place: Copy + Default;

    fn first(&mut self, path: &[u8]) -> Self::Place;
    fn second(&mut self, path: &[u8], place: &mut Self::Place);
    fn third(&mut self, path: &[u8], place: Self::Place);
}

/// Takes all paths through all steps. In each step they come in their order.
#[inline]
pub(super) fn take<S: Steps>(steps: &mut S, paths: &[&[u8]]) {
    let mut places = [S::Place::default(); PLACES];
    for step in 0..paths.len() + 2 * APART {
        if let Some(path) = paths.get(step) {
            places[step % PLACES] = steps.first(path);
        }
        if let Some(path) = step.checked_sub(APART).and_then(|number| paths.get(number)) {
            steps.second(path, &mut places[(step - APART) % PLACES]);
        }
        if let Some(path) = step.checked_sub(2 * APART).and_then(|number| paths.get(number)) {
            steps.third(path, places[(step - 2 * APART) % PLACES]);
        }
    }
}
