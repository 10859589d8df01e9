"""Internal: the pure part: the rules, the judgement of a case, the runs before, and the figures of all rows."""
