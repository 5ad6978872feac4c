//! What a build leaves behind and shows: every view is a function of the event stream. Does not know how a job is run.
