package core

import (
	"context"
	"database/sql/driver"
	"strings"
)

// SQLite parses and plans a statement each time that it is run, unless it is kept prepared; that was a fifth of what a
// controller computes while a cluster starts. PostgreSQL's driver keeps statements by itself.

// keeping is a connector whose connections keep what they have prepared.
type keeping struct{ driver.Connector }

func (k keeping) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &keptConn{engine: c.(engine), idle: map[string]prepared{}}, nil
}

// engine is what SQLite's connections can do.
type engine interface {
	driver.Conn
	driver.Pinger
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// prepared is what SQLite's statements can do.
type prepared interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keptMost is how many statements a connection keeps. The code has some hundred texts; those with lists of values of any
// length would otherwise grow without end.
const keptMost = 400

// keptConn is one connection; like any other it is used by one goroutine at a time. A statement that runs is in its caller's
// hands alone: running the same text meanwhile prepares it again.
type keptConn struct {
	engine
	idle map[string]prepared // by text
}

// take is the prepared statement of a text; nil for a text that is not worth keeping.
func (c *keptConn) take(ctx context.Context, query string) (prepared, error) {
	if !repeats(query) {
		return nil, nil
	}
	if s := c.idle[query]; s != nil {
		delete(c.idle, query)
		return s, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.(prepared), nil
}

// give takes a statement back. One that failed, perhaps in the middle, is not used again.
func (c *keptConn) give(query string, s prepared, failed bool) error {
	if failed || c.idle[query] != nil {
		return s.Close()
	}
	if len(c.idle) >= keptMost {
		for text, other := range c.idle { // any
			delete(c.idle, text)
			if err := other.Close(); err != nil {
				return err
			}
			break
		}
	}
	c.idle[query] = s
	return nil
}

// repeats says whether a text is a statement of rows, not one of the schema or a setting.
func repeats(query string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	switch strings.ToUpper(strings.TrimSpace(word)) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH":
		return true
	}
	return false
}

func (c *keptConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.engine.ExecContext(ctx, query, args)
	}
	result, err := s.ExecContext(ctx, args)
	if closing := c.give(query, s, err != nil); err == nil {
		err = closing
	}
	return result, err
}

func (c *keptConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.engine.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		_ = c.give(query, s, true) // the query's own error says more
		return nil, err
	}
	return &keptRows{Rows: rows, back: func(failed bool) error { return c.give(query, s, failed) }}, nil
}

// Close ends the statements before the connection.
func (c *keptConn) Close() error {
	for _, s := range c.idle {
		_ = s.Close() // the connection ends, whatever this says
	}
	c.idle = nil
	return c.engine.Close()
}

// keptRows gives its statement back when it is closed.
type keptRows struct {
	driver.Rows
	back func(failed bool) error
}

func (r *keptRows) Close() error {
	err := r.Rows.Close()
	if r.back == nil {
		return err
	}
	back := r.back
	r.back = nil
	if closing := back(err != nil); err == nil {
		err = closing
	}
	return err
}
