package core

import (
	"context"
	"muster/internal/kit/lists"
	"slices"
)

// Kind names an entity; it is also its table.
type Kind string

// Definition registers a kind. Of one that has a life the claims, the leases, the census, the metrics and the engine follow from
// it; of any its secrets, and which of its constraints two transactions may race for.
type Definition struct {
	Kind     Kind
	Phases   []Phase // that a living one can be in, in the order of a life; none: its rows have no life
	End      Phase   // that it stays in when it is over
	Failures []Phase // going there counts as a failure
	Alarm    *Alarm  // who runs the site is told of those that are in one of Failures; nil: not of this kind
	// Settled is called in every transaction that settles one of them, after that; nil: nothing follows.
	Settled func(ctx context.Context, tx *Tx, id string) error
	Sealed  []SealedColumn
	// Tables makes the tables of a kind that the migrations do not know, where they are missing: statements that both databases
	// accept, with {{life}} for the columns of a life. A table that has to change later needs a migration.
	Tables string
	Races  []string // uniqueness constraints: who loses against a concurrent transaction is run again, and sees what it did
}

// Alarm is a sentence about how many of a kind there are.
type Alarm struct {
	One, More string // what comes after the number: "cluster is degraded"
	Look      string // where one sees more
}

// Lives says that the kind's rows have a life: phases, which handlers work on.
func (d Definition) Lives() bool { return len(d.Phases) > 0 }

// Fails says that going to a phase counts as a failure.
func (d Definition) Fails(p Phase) bool { return slices.Contains(d.Failures, p) }

// Living lists the kinds of the database that have a life, in the order in which a controller looks for work.
func (s *Store) Living() []Definition {
	return slices.DeleteFunc(slices.Clone(s.kinds), func(d Definition) bool { return !d.Lives() })
}

// Living lists the kinds of the database that have a life.
func (tx *Tx) Living() []Definition { return tx.of.Living() }

// Definition is that of one kind; the zero value, if the database was opened without it.
func (s *Store) Definition(k Kind) Definition {
	found, _ := lists.Find(s.kinds, func(d Definition) bool { return d.Kind == k })
	return found
}

// sealedColumns lists all columns of secrets: they are sealed, sealed again and proved by TestABackupAloneIsWorthNothing.
func (s *Store) sealedColumns() []SealedColumn {
	columns := []SealedColumn{siteSecret()}
	for _, d := range s.kinds {
		columns = append(columns, d.Sealed...)
	}
	return columns
}

// settled does what follows from a settlement.
func (tx *Tx) settled(ctx context.Context, kind Kind, id string) error {
	if follows := tx.of.Definition(kind).Settled; follows != nil {
		return follows(ctx, tx, id)
	}
	return nil
}
