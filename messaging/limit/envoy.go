// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"context"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// service is Envoy's RateLimitService.
type service struct {
	envoy.UnimplementedRateLimitServiceServer
	limiter *Limiter
	rules   *Settings
}

// ShouldRateLimit grants a request if all buckets have tokens that its descriptors name, and takes none else.
// Without orders of a distributor
// it is over the limit: an error would make Envoy let it pass, unless its failure_mode_deny is set.
func (s *service) ShouldRateLimit(_ context.Context, r *envoy.RateLimitRequest) (*envoy.RateLimitResponse, error) {
	answer := &envoy.RateLimitResponse{OverallCode: envoy.RateLimitResponse_OK}
	answer.Statuses = make([]*envoy.RateLimitResponse_DescriptorStatus, len(r.Descriptors))
	var asks []Ask
	var of []int // the descriptor of each
	for n, d := range r.Descriptors {
		answer.Statuses[n] = &envoy.RateLimitResponse_DescriptorStatus{Code: envoy.RateLimitResponse_OK}
		if d.GetLimit() != nil {
			return nil, status.Error(codes.InvalidArgument, "a descriptor has a limit of its own; the distributor has the limits: leave it out")
		}
		if name, has := s.rules.bucket(r.Domain, entries(d)); has {
			asks, of = append(asks, Ask{name, uint64(max(1, r.HitsAddend))}), append(of, n)
		}
	}
	granted, told, err := s.limiter.Take(asks...)
	switch {
	case err == ErrLease:
		told = make([]Answer, len(asks))
		granted = len(asks) == 0 // what no rule names has no limit
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if !granted {
		answer.OverallCode = envoy.RateLimitResponse_OVER_LIMIT
	}
	for n, a := range told {
		st := answer.Statuses[of[n]]
		if !a.Granted {
			st.Code = envoy.RateLimitResponse_OVER_LIMIT
		}
		st.LimitRemaining = uint32(min(a.Remaining, 1<<32-1))
		if a.Wait > 0 {
			st.DurationUntilReset = durationpb.New(a.Wait)
		}
	}
	return answer, nil
}

// entries of a descriptor; of a key that is there twice the last counts.
func entries(d *common.RateLimitDescriptor) map[string]string {
	found := make(map[string]string, len(d.GetEntries()))
	for _, e := range d.GetEntries() {
		found[e.GetKey()] = e.GetValue()
	}
	return found
}
