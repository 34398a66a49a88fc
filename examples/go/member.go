package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	pb "hightide-example/gen/hightide/v1"
)

const sessionTimeout = 10 * time.Second

// place is a partition.
type place struct {
	topic     string
	partition int32
}

// Member is a consumer in a group. The coordinator sends orders down its stream, and it answers each of them.
// It does so in Poll and Leave only. So nothing is read while a partition is given back, and the positions that an
// answer commits are those of records that the program has finished. The price: a program that does not poll for two
// thirds of the session timeout is no member any more.
type Member struct {
	cluster *Cluster
	stream  grpc.BidiStreamingClient[pb.RegisterConsumerRequest, pb.RegisterConsumerResponse]
	orders  chan *pb.RegisterConsumerResponse
	ended   error // Why the stream ended; set before orders is closed.
	last    *pb.RegisterConsumerResponse
	owned   map[place]*pb.ConsumedPosition
}

// Join registers a consumer of one topic in a group, and waits for the welcome.
func Join(ctx context.Context, cluster *Cluster, group, topic string) (*Member, error) {
	member := &Member{cluster: cluster, owned: map[place]*pb.ConsumedPosition{}}
	registration := &pb.ConsumerRegistration{
		Group:            group,
		Topics:           []*pb.TopicStreams{{Topic: topic, Streams: 1}},
		AutoCommit:       true,
		OffsetReset:      pb.OffsetReset_OFFSET_RESET_SMALLEST,
		SessionTimeoutMs: int32(sessionTimeout.Milliseconds()),
	}
	err := cluster.Retry(ctx, topic, func() error {
		coordinator, err := cluster.Coordinator(group)
		if err != nil {
			return err
		}
		if member.stream, err = coordinator.RegisterConsumer(ctx); err != nil {
			return err
		}
		first := &pb.RegisterConsumerRequest{
			Message: &pb.RegisterConsumerRequest_Registration{Registration: registration},
		}
		// Send only says that the stream is over. Recv says why.
		if err = member.stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		member.last, err = member.stream.Recv()
		return err
	})
	if err != nil {
		return nil, err
	}
	fmt.Printf("joined group %s as %s\n", group, member.last.GetRegistered().ConsumerId)
	member.orders = make(chan *pb.RegisterConsumerResponse, 16)
	go member.receive()
	return member, nil
}

// receive hands orders over to Poll, until the stream ends.
func (m *Member) receive() {
	defer close(m.orders)
	for {
		order, err := m.stream.Recv()
		if err != nil {
			m.ended = err
			return
		}
		m.orders <- order
	}
}

// Poll obeys the orders that have come, and returns the next records of the partitions that the member owns.
// It returns none if there are none for a moment. An error means that it is a member no more.
func (m *Member) Poll(ctx context.Context) ([]*pb.PlainRecord, error) {
	for more := true; more; {
		select {
		case order, open := <-m.orders:
			if !open {
				return nil, m.ended
			}
			if err := m.obey(order); err != nil {
				return nil, err
			}
		default:
			more = false
		}
	}
	for at, position := range m.owned {
		answer, err := m.cluster.FetchRecords(ctx, at.topic, at.partition, position.Offset, 0)
		if err != nil {
			return nil, err
		}
		if len(answer.Records) > 0 {
			position.Offset = answer.NextOffset
			return answer.Records, nil
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil, nil
	}
}

// obey does what an order says and answers it. The answer repeats the order's sequence, generation and epoch.
func (m *Member) obey(order *pb.RegisterConsumerResponse) error {
	m.last = order
	answer := &pb.RegisterConsumerRequest{
		CoordinatorEpoch: order.CoordinatorEpoch, Generation: order.Generation, Sequence: order.Sequence,
	}
	switch said := order.Message.(type) {
	case *pb.RegisterConsumerResponse_Ping:
		answer.Message = &pb.RegisterConsumerRequest_Ping{Ping: &pb.PingAnswer{Positions: m.positions()}}
	case *pb.RegisterConsumerResponse_StopFetcher:
		given := []*pb.ConsumedPosition{}
		for _, each := range said.StopFetcher.Partitions {
			at := place{each.Topic, each.Partition}
			if position, ok := m.owned[at]; ok {
				given = append(given, position)
				delete(m.owned, at)
			}
			fmt.Printf("stops %s-%d\n", each.Topic, each.Partition)
		}
		answer.Message = &pb.RegisterConsumerRequest_StopFetcher{
			StopFetcher: &pb.StopFetcherAnswer{Positions: given},
		}
	case *pb.RegisterConsumerResponse_StartFetcher:
		for _, stream := range said.StartFetcher.Streams {
			for _, each := range stream.Partitions {
				m.owned[place{each.Topic, each.Partition}] = &pb.ConsumedPosition{
					Topic: each.Topic, Partition: each.Partition, Generation: each.Generation,
					Offset: each.Offset, LeaderEpoch: -1,
				}
				fmt.Printf("starts %s-%d at offset %d\n", each.Topic, each.Partition, each.Offset)
			}
		}
		answer.Message = &pb.RegisterConsumerRequest_StartFetcher{StartFetcher: &pb.StartFetcherAnswer{}}
	default:
		return fmt.Errorf("an order that this program does not know: %v", order)
	}
	return m.send(answer)
}

// Leave gives everything back and ends the membership. The positions are committed when it returns without an error.
func (m *Member) Leave() error {
	err := m.send(&pb.RegisterConsumerRequest{
		CoordinatorEpoch: m.last.CoordinatorEpoch, Generation: m.last.Generation,
		Message: &pb.RegisterConsumerRequest_Goodbye{Goodbye: &pb.ConsumerGoodbye{Positions: m.positions()}},
	})
	if err != nil {
		return err
	}
	for range m.orders {
		// Orders that crossed the goodbye need no answer.
	}
	if !errors.Is(m.ended, io.EOF) {
		return m.ended
	}
	return nil
}

// positions is how far the member has come in what it owns.
func (m *Member) positions() []*pb.ConsumedPosition {
	all := []*pb.ConsumedPosition{}
	for _, position := range m.owned {
		all = append(all, position)
	}
	return all
}

// send says something to the coordinator. If the stream is over, Poll tells why.
func (m *Member) send(message *pb.RegisterConsumerRequest) error {
	if err := m.stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
