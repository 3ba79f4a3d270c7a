package fake

import "context"

// Size is what Write has put there.
func (s *Substrate) Size(ctx context.Context, cluster string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.kept[cluster])), ctx.Err()
}

// Write makes this the content of a cluster's /home and state.
func (s *Substrate) Write(cluster, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[cluster] = content
}
