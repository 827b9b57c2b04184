// Locks in a PostgreSQL database, shared by many machines: the rules in this process, and
// the state of each lock in a row. Rate limits and fence registers are rows as well.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "lock/store.hpp"
#include "store/postgres/pg_rows.hpp"
#include "store/store_url.hpp"

namespace dlock::postgres {

// `url` as users see it, without secrets.
std::unique_ptr<Store> store_of(asio::io_context& context, std::string url,
                                std::unique_ptr<PgRows> rows);

// As open_store() and examine_store(). All servers of the URL are examined at the same
// time, and nothing is changed there.
OpenStore open;
ExamineStore examine;

// The SQL that makes the schema, and grants the user of the URL what locks need.
SchemaText schema;

}  // namespace dlock::postgres
