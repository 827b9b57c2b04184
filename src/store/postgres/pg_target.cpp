#include "store/postgres/pg_target.hpp"

#include "store/url_parts.hpp"
#include "util/text.hpp"

namespace dlock::postgres {

std::string PgTarget::shown() const {
  return path.empty() ? ServerAddress{host, port}.shown() : printable(path, 200);
}

}  // namespace dlock::postgres
