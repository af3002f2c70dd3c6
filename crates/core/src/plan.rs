//! Stack plans: an ordered list of typed protocol configurations, checked as a whole, then built.
