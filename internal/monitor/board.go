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
	revisions map[string]int64 // by cluster
	own       map[string]int64 // what nodes that are tested were told alone, by node
	news      chan struct{}    // closed and replaced when a revision changes
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
	var now, own map[string]int64
	err := b.db.View(ctx, func(tx *store.Tx) (err error) {
		if now, err = tx.Revisions(ctx); err == nil {
			own, err = tx.OwnNews(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.Equal(now, b.revisions) || !maps.Equal(own, b.own) {
		b.revisions, b.own = now, own
		close(b.news)
		b.news = make(chan struct{})
	}
	return nil
}

// wait returns when there is news for a node that knows this much of its cluster and of itself, or false when ctx ends
// before.
func (b *board) wait(ctx context.Context, node store.Node, revision int64) bool {
	for {
		b.mu.Lock()
		has, own, news := b.revisions[node.Cluster], b.own[node.ID], b.news
		b.mu.Unlock()
		if has > revision || own > node.News {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}
