// A false kernel: the clock, descriptors and connections that dlock's code sees in a
// simulation.
//
// The program that links kernel.cpp defines the functions of the C library by which dlock
// and Asio reach the kernel (clock_gettime, epoll_wait, connect, send, ...). While there
// is a Kernel, they act on it; otherwise they make the system call. The code of dlock
// thus runs as it is, without knowing of the simulation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::simulation {

using Time = std::int64_t;  // nanoseconds since the machines were started
constexpr Time microsecond = 1000, millisecond = 1000 * microsecond,
               second = 1000 * millisecond;

inline std::string text_of_span(Time span) {
  return std::to_string(span / millisecond) + "ms";
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : next() % end; }
  bool chance(double probability) { return unit() < probability; }
  Time between(Time least, Time most) {
    return least + static_cast<Time>(below(static_cast<std::uint64_t>(most - least) + 1));
  }
  // Each order of magnitude is as likely as any other.
  Time spread(Time least, Time most);

 private:
  double unit() { return static_cast<double>(next() >> 11) / 9007199254740992.0; }

  std::uint64_t state_;
};

// That all runs compete for, and which the judge knows best.
inline const std::string main_lock = "job";

// What the kernel knows of a process.
struct Process {
  int pid = 0;
  Time wall_offset = 0;    // of its clock of the time of day
  Time stopped_until = 0;  // by SIGSTOP
  bool is_dead = false;
  bool is_ready = true;     // its event loop may have something to do
  Time last_request = 0;    // when it last asked for the lock, as far as `asks` knows
  std::vector<int> opened;  // its descriptors
};

class Connection;

// A server, as the network and the judge know it.
class Peer {
 public:
  // What a request of a process was; called once it was executed. `partial_release`: it
  // has another lease, which a late request could use.
  enum class Act { ask, release, partial_release, look, other };
  using Executed = std::function<void(const Process&, Act)>;
  using Leases = std::map<std::uint64_t, Time>;

  virtual ~Peer() = default;
  virtual void received(const std::shared_ptr<Connection>& from,
                        std::string_view bytes) = 0;
  virtual void closed(const std::shared_ptr<Connection>& by) = 0;

  // It is stopped, or suffers what only a server of its kind can.
  virtual void pause(Time span);
  virtual void disturb(Time span) { pause(span); }

  // It is killed, and comes back later.
  virtual void crash() = 0;
  virtual void start() = 0;
  // Those of a lock that it keeps: their fences, and when they end.
  virtual Leases leases(const std::string& lock) = 0;
  // Whatever it knows of the lock is removed by hand, unless that is in use just now.
  virtual bool remove(const std::string& /*lock*/) { return false; }

  std::int64_t clock() const;  // the time of day in microseconds
  // When its clock shows that.
  Time moment_of(std::int64_t shown) const;
  double rate = 0;        // how much faster than others its clock is
  Time clock_offset = 0;  // of its clock

  bool is_up = true;
  Time paused_until = 0;
  Time failed_over = 0;  // when another one last took over, which may not know all
  // Its connections, while both sides have them open.
  std::vector<std::weak_ptr<Connection>> connections;
};

// Each direction delivers in order, and may be late: packets are sent again once a cut is
// over, even after the death of their sender.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Process* client, Peer& server, int fd)
      : process(client), peer(server), descriptor(fd) {}

  void send_up(std::string bytes) { send(up_, std::move(bytes), false); }
  void send_down(std::string bytes) { send(down_, std::move(bytes), false); }
  // What is sent next arrives that much later.
  void hold_up(Time span);
  // A side closes it. `discards`: what was not delivered is lost.
  void close_client(bool discards);
  void close_server(bool discards);
  // A firewall or a crash forgets the connection.
  void reset();

  Process* process;
  Peer& peer;
  int descriptor;
  bool client_has_closed = false;
  bool server_has_closed = false;

 private:
  struct Packet {
    std::string bytes;
    bool is_end = false;
  };
  struct Direction {
    bool is_up = false;
    Time free_at = 0;
    std::deque<Packet> packets;
  };
  void send(Direction& direction, std::string bytes, bool is_end);
  void deliver(Direction& direction);

  Direction up_{true, 0, {}};
  Direction down_{false, 0, {}};
};

// How a network behaves.
struct Network {
  Time least = 30 * microsecond;
  Time most = 300 * microsecond;
  double late = 0;  // the part of packets that take up to `latest`
  Time latest = 0;
  double split = 0;      // the part of messages that arrive in two pieces
  double late_asks = 0;  // the part of requests for the lock that take up to `latest_ask`
  Time latest_ask = 0;
};

class Kernel {
 public:
  explicit Kernel(std::uint64_t seed);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  static Kernel* current();  // null outside of a simulation

  Time now = 1000 * second;
  Random random;
  Network network;
  Process* running = nullptr;          // whose code runs
  int looks = 0;                       // for events, at this moment
  std::map<std::string, Peer*> peers;  // by address
  std::vector<std::string_view>
      asks;  // what marks a request for the lock in what is sent

  void at(Time moment, std::function<void()> happens);
  // Lets the next event happen; false if there is none, or none until `end`.
  bool step(Time end);

  // Until when no packet passes between the two.
  Time& cut(const Process* process, const Peer* peer) { return cuts_[{process, peer}]; }
  Time delay();

  // The process gets a signal.
  void signal(const Process& process, int number);
  // The connections of a process that has died are closed as by the kernel.
  void kill(Process& process);

  // A number that differs if anything happened differently.
  std::uint64_t digest() const { return digest_; }
  void note(std::uint64_t number) { digest_ = (digest_ ^ number) * 0x100000001b3; }
  void trace(const std::string& line) const;
  bool traces = false;

  // The calls. Each returns -1 with errno as in the manual.
  struct File;
  File* file(int fd);
  int open(File file);
  int close(int fd);
  void activity(int fd);  // it may have become ready
  Connection* connection(int fd);

 private:
  struct Event {
    Time at;
    std::uint64_t number;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325;
  std::map<std::pair<const Process*, const Peer*>, Time> cuts_;
  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace dlock::simulation
