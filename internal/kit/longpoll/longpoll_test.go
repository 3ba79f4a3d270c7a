package longpoll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// deaf has nothing to tell.
func deaf(ctx context.Context, _ int64) (struct{}, error) {
	<-ctx.Done()
	return struct{}{}, context.Cause(ctx)
}

func TestALongPollEndsWhenAReportsAnswerKnowsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Poll
		result := make(chan error, 1)
		go func() {
			_, err := Ask(t.Context(), &p, 4, deaf)
			result <- err
		}()
		synctest.Wait()
		p.Newest(4)
		synctest.Wait()
		if len(result) != 0 {
			t.Fatal("it ended for nothing new")
		}
		p.Newest(5)
		if err := <-result; !errors.Is(err, ErrNewer) {
			t.Error(err)
		}
		p.Newest(6) // no poll is under way
	})
}
