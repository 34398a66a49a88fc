// A client of Hightide in Go, made of nothing but the contract in protos/: it creates a topic, writes records, reads
// them back, and reads them once more as a member of a consumer group.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "hightide-example/gen/hightide/v1"
)

const partitions = 4

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:9092", "the host:port of any broker")
	topic := flag.String("topic", "from-go", "the topic to create, write and read")
	group := flag.String("group", "from-go", "the consumer group to join")
	count := flag.Int("records", 100, "how many records to write")
	until := flag.Int("read", 0, "how many records to read as a member of the group; 0: as many as it writes")
	flag.Parse()
	if *until == 0 {
		*until = *count
	}
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	cluster := Connect(*bootstrap)
	defer cluster.Close()
	if err := createTopic(ctx, cluster, *topic); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("created %s\n", *topic)
	first, err := produce(ctx, cluster, *topic, *count)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("produced %d records\n", *count)
	fetched, err := fetch(ctx, cluster, *topic, first, *count)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("fetched %d records\n", fetched)
	read, err := readAsMember(ctx, cluster, *group, *topic, *until)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the group has read %d records\n", read)
}

// createTopic asks the controller for a topic with three replicas. One that exists already is fine.
func createTopic(ctx context.Context, cluster *Cluster, topic string) error {
	return cluster.Retry(ctx, topic, func() error {
		controller, err := cluster.Controller()
		if err != nil {
			return err
		}
		_, err = controller.CreateTopic(ctx, &pb.CreateTopicRequest{
			Topic: topic, PartitionCount: partitions, ReplicationFactor: 3,
		})
		if status.Code(err) == codes.AlreadyExists {
			return nil
		}
		return err
	})
}

// produce writes numbered records to all partitions in turn. It returns the offset of the first one in each.
// A call that is made again after it failed may write its records twice: only Produce has idempotent producers.
func produce(ctx context.Context, cluster *Cluster, topic string, count int) ([]int64, error) {
	batches := make([][]*pb.PlainRecord, partitions)
	for number := range count {
		record := &pb.PlainRecord{Key: fmt.Append(nil, number), Value: fmt.Appendf(nil, "record %d", number)}
		batches[number%partitions] = append(batches[number%partitions], record)
	}
	first := make([]int64, partitions)
	for partition, records := range batches {
		if len(records) == 0 {
			continue
		}
		err := cluster.Retry(ctx, topic, func() error {
			leader, err := cluster.Leader(topic, int32(partition))
			if err != nil {
				return err
			}
			answer, err := leader.ProduceRecords(ctx, &pb.ProduceRecordsRequest{
				Topic: topic, Partition: int32(partition), Records: records, Acks: pb.Acks_ACKS_ALL,
			})
			first[partition] = answer.GetBaseOffset()
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}

// fetch reads `count` records from the leaders of all partitions, from the given offsets on.
func fetch(ctx context.Context, cluster *Cluster, topic string, first []int64, count int) (int, error) {
	next := append([]int64(nil), first...)
	fetched := 0
	for partition := 0; fetched < count; partition = (partition + 1) % partitions {
		answer, err := cluster.FetchRecords(ctx, topic, int32(partition), next[partition], 100*time.Millisecond)
		if err != nil {
			return fetched, err
		}
		fetched += len(answer.Records)
		next[partition] = answer.NextOffset
	}
	return fetched, nil
}

// readAsMember joins a group, reads `count` records from where the group is, and leaves.
func readAsMember(ctx context.Context, cluster *Cluster, group, topic string, count int) (int, error) {
	member, err := Join(ctx, cluster, group, topic)
	if err != nil {
		return 0, err
	}
	read := 0
	for read < count {
		records, err := member.Poll(ctx)
		if err != nil {
			return read, err
		}
		read += len(records) // Whatever a program does with records, it does it here, before it polls again.
	}
	return read, member.Leave()
}
