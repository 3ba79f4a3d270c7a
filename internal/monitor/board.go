package monitor

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"muster/internal/store"
)

// look is how often the board looks for what other replicas have changed.
const look = 300 * time.Millisecond

// board shows the newest revision of every cluster, so that a thousand waiting agents cost one query and not a thousand.
type board struct {
	db *store.Store

	mu        sync.Mutex
	revisions map[string]int64
	news      chan struct{} // closed and replaced when a revision changes
}

func newBoard(db *store.Store) *board {
	return &board{db: db, revisions: map[string]int64{}, news: make(chan struct{})}
}

func (b *board) run(ctx context.Context, log *slog.Logger) error {
	for ctx.Err() == nil {
		changed := b.db.Changed()
		if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot look for news", "error", err)
		}
		select {
		case <-changed:
		case <-time.After(look):
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *board) refresh(ctx context.Context) error {
	var now map[string]int64
	err := b.db.View(ctx, func(tx *store.Tx) (err error) {
		now, err = tx.Revisions(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.Equal(now, b.revisions) {
		b.revisions = now
		close(b.news)
		b.news = make(chan struct{})
	}
	return nil
}

// wait returns when the cluster's revision is above after, or false when ctx ends before.
func (b *board) wait(ctx context.Context, cluster string, after int64) bool {
	for {
		b.mu.Lock()
		revision, news := b.revisions[cluster], b.news
		b.mu.Unlock()
		if revision > after {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}
