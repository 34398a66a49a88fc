package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "hightide-example/gen/hightide/v1"
)

// errNobody says that the metadata name nobody for this, for example while a leader is elected.
var errNobody = errors.New("nobody is known for it now")

// askAgain has the reasons of errors that pass when the metadata are asked for again.
var askAgain = map[string]bool{
	"NOT_LEADER": true, "NOT_CONTROLLER": true, "NOT_COORDINATOR": true, "UNKNOWN_TOPIC": true,
	"UNKNOWN_PARTITION": true, "PARTITION_OFFLINE": true,
}

// Cluster finds the process to ask: the leader of a partition, the controller, the coordinator of a group.
type Cluster struct {
	bootstrap   string
	connections map[string]*grpc.ClientConn
	metadata    *pb.GetMetadataResponse
}

// Connect returns a cluster that is reached by one of its brokers. It asks nothing yet.
func Connect(bootstrap string) *Cluster {
	return &Cluster{bootstrap, map[string]*grpc.ClientConn{}, &pb.GetMetadataResponse{}}
}

// Close closes all connections.
func (c *Cluster) Close() {
	for _, connection := range c.connections {
		connection.Close()
	}
}

// Retry makes a call. If it meets the wrong process, or one that is gone, it asks for the metadata and makes it again.
func (c *Cluster) Retry(ctx context.Context, topic string, call func() error) error {
	for {
		err := call()
		if err == nil || !passes(err) {
			return err
		}
		if asking := c.refresh(ctx, topic); asking != nil {
			err = asking
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last error: %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// passes says whether an error may be gone at the next attempt. The reason in the ErrorInfo is for programs.
func passes(err error) bool {
	if errors.Is(err, errNobody) || status.Code(err) == codes.Unavailable {
		return true
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return askAgain[info.Reason]
		}
	}
	return false
}

// refresh asks any broker that answers, the known ones first.
func (c *Cluster) refresh(ctx context.Context, topic string) error {
	addresses := []string{}
	for _, broker := range c.metadata.Brokers {
		addresses = append(addresses, addressOf(broker))
	}
	var failed error
	for _, address := range append(addresses, c.bootstrap) {
		connection, err := c.connection(address)
		if err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		metadata, err := pb.NewBrokerServiceClient(connection).GetMetadata(
			asking, &pb.GetMetadataRequest{Topics: []string{topic}})
		cancel()
		if err == nil {
			c.metadata = metadata
			return nil
		}
		failed = fmt.Errorf("%s: %w", address, err)
	}
	return failed
}

// Leader is the broker that leads a partition.
func (c *Cluster) Leader(topic string, partition int32) (pb.BrokerServiceClient, error) {
	for _, each := range c.metadata.Topics {
		if each.Topic == topic && int(partition) < len(each.Partitions) {
			for _, broker := range c.metadata.Brokers {
				if broker.Id == each.Partitions[partition].Leader {
					connection, err := c.connection(addressOf(broker))
					return pb.NewBrokerServiceClient(connection), err
				}
			}
		}
	}
	return nil, fmt.Errorf("the leader of %s-%d: %w", topic, partition, errNobody)
}

// Controller is the active controller.
func (c *Cluster) Controller() (pb.ControllerServiceClient, error) {
	if c.metadata.Controller == nil {
		return nil, fmt.Errorf("the active controller: %w", errNobody)
	}
	connection, err := c.connection(addressOf(c.metadata.Controller))
	return pb.NewControllerServiceClient(connection), err
}

// Coordinator is the active coordinator of a group: that of the shard which the CRC-32C of the group's name gives.
func (c *Cluster) Coordinator(group string) (pb.CoordinatorServiceClient, error) {
	shards := c.metadata.Coordinators
	if len(shards) > 0 {
		sum := crc32.Checksum([]byte(group), crc32.MakeTable(crc32.Castagnoli))
		if found := shards[sum%uint32(len(shards))]; found.Host != "" {
			connection, err := c.connection(addressOf(found))
			return pb.NewCoordinatorServiceClient(connection), err
		}
	}
	return nil, fmt.Errorf("the coordinator of group %s: %w", group, errNobody)
}

// FetchRecords reads records of one partition from its leader, and waits for some if there are none.
func (c *Cluster) FetchRecords(
	ctx context.Context, topic string, partition int32, offset int64, wait time.Duration,
) (answer *pb.FetchRecordsResponse, err error) {
	err = c.Retry(ctx, topic, func() error {
		leader, err := c.Leader(topic, partition)
		if err != nil {
			return err
		}
		answer, err = leader.FetchRecords(ctx, &pb.FetchRecordsRequest{
			Topic: topic, Partition: partition, Offset: offset, MaxRecords: 1000,
			MaxWaitMs: int32(wait.Milliseconds()),
		})
		return err
	})
	return answer, err
}

// connection is the only connection to an address. For a cluster with TLS, it takes other credentials here.
func (c *Cluster) connection(address string) (*grpc.ClientConn, error) {
	if known, ok := c.connections[address]; ok {
		return known, nil
	}
	made, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		c.connections[address] = made
	}
	return made, err
}

func addressOf(endpoint *pb.Endpoint) string {
	return net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
}
