package monitor

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/node"
)

// How often the notifier looks: for what other replicas have changed, and at most.
const (
	look      = 300 * time.Millisecond
	lookLeast = 20 * time.Millisecond
)

// notifier shows the newest revision of every cluster, so that a thousand waiting agents cost one query and not a thousand.
type notifier struct {
	db *core.Store

	mu        sync.Mutex
	revisions map[string]int64 // by cluster
	own       map[string]int64 // what nodes that are tested were told alone, by node
	hosts     map[string]int64 // what hypervisors elsewhere are to hold, by machine
	news      chan struct{}    // closed and replaced when a revision changes
}

func newNotifier(db *core.Store) *notifier {
	return &notifier{db: db, revisions: map[string]int64{}, news: make(chan struct{})}
}

func (b *notifier) run(ctx context.Context, log *slog.Logger) error {
	b.db.Follow(ctx, lookLeast, look, func() {
		if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot look for news", "error", err)
		}
	})
	return nil
}

func (b *notifier) refresh(ctx context.Context) error {
	var now, own, hosts map[string]int64
	err := b.db.View(ctx, func(tx *core.Tx) (err error) {
		if now, err = cluster.Revisions(ctx, tx); err == nil {
			own, err = node.OwnNews(ctx, tx)
		}
		if err == nil {
			hosts, err = host.Hostings(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !maps.Equal(now, b.revisions) || !maps.Equal(own, b.own) || !maps.Equal(hosts, b.hosts) {
		b.revisions, b.own, b.hosts = now, own, hosts
		close(b.news)
		b.news = make(chan struct{})
	}
	return nil
}

// wait returns when there is news for a node that knows this much of its cluster and of itself, or false when ctx ends
// before.
func (b *notifier) wait(ctx context.Context, node node.Node, revision int64) bool {
	return b.until(ctx, func() bool { return b.revisions[node.Cluster] > revision || b.own[node.ID] > node.News })
}

// waitHost is wait for a hypervisor that knows a revision of what it is to hold.
func (b *notifier) waitHost(ctx context.Context, host string, revision int64) bool {
	return b.until(ctx, func() bool { return b.hosts[host] > revision })
}

// until returns when something holds of the notifier, or false when ctx ends before.
func (b *notifier) until(ctx context.Context, holds func() bool) bool {
	for {
		b.mu.Lock()
		is, news := holds(), b.news
		b.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}
