UPDATE event SET text = text; -- an index alone
