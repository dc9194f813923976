//! Pages of records.

use std::time::SystemTime;

use sless_core::{InvocationPage, InvocationQuery};
use tokio_postgres::types::ToSql;

use super::{
    Inner,
    rows::{self, COLUMNS, Cursor},
};
use crate::error::Fault;

/// A statement and its parameters. Each combination of conditions is a statement of its own, for
/// which the database finds an index.
struct Statement {
    sql: String,
    texts: Vec<String>,
    parameters: Vec<Parameter>,
}

enum Parameter {
    Text(usize),
    Time(SystemTime),
    Number(i64),
}

impl Statement {
    fn of(query: &InvocationQuery, fetched: i64) -> Result<Self, Fault> {
        let mut statement = Self {
            sql: format!("SELECT {COLUMNS} FROM sless_invocations WHERE namespace = $1"),
            texts: Vec::new(),
            parameters: Vec::new(),
        };
        statement.text(query.namespace.as_str());
        if let Some(function) = &query.function {
            let at = statement.text(function.as_str());
            statement.sql.push_str(&format!(" AND function = ${at}"));
        }
        if let Some(origin) = query.origin {
            let at = statement.text(origin.as_str());
            statement.sql.push_str(&format!(" AND origin = ${at}"));
        }
        if query.failed_only {
            // As the partial index says it.
            statement.sql.push_str(" AND status >= 400");
        }
        if let Some(since) = query.since {
            let at = statement.push(Parameter::Time(rows::time(since)));
            statement.sql.push_str(&format!(" AND started_at >= ${at}"));
        }
        if let Some(cursor) = &query.cursor {
            let Cursor { started_at, number } = Cursor::read(cursor)?;
            let time = statement.push(Parameter::Time(rows::time(started_at)));
            let number = statement.push(Parameter::Number(number));
            let behind = format!(" AND (started_at, number) < (${time}, ${number})");
            statement.sql.push_str(&behind);
        }
        let limit = statement.push(Parameter::Number(fetched));
        let order = format!(" ORDER BY started_at DESC, number DESC LIMIT ${limit}");
        statement.sql.push_str(&order);
        Ok(statement)
    }

    fn text(&mut self, text: &str) -> usize {
        self.texts.push(text.to_owned());
        self.push(Parameter::Text(self.texts.len() - 1))
    }

    fn push(&mut self, parameter: Parameter) -> usize {
        self.parameters.push(parameter);
        self.parameters.len()
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let bound = |parameter| -> &(dyn ToSql + Sync) {
            match parameter {
                &Parameter::Text(at) => &self.texts[at],
                Parameter::Time(time) => time,
                Parameter::Number(number) => number,
            }
        };
        self.parameters.iter().map(bound).collect()
    }
}

/// Reads a page, newest first. Records that are appended meanwhile are newer than the cursor, or
/// behind it: none is given twice.
pub(super) async fn page(log: &Inner, query: &InvocationQuery) -> Result<InvocationPage, Fault> {
    let limit = query.limit.clamp(1, InvocationQuery::LIMIT_MAX);
    // One more, to see whether a page follows: at most a thousand and one.
    let fetched = i64::try_from(limit + 1).unwrap_or(i64::MAX);
    let statement = Statement::of(query, fetched)?;
    log.ready().await?;
    let rows = log.connections.run(|connection| {
        Box::pin(async move {
            let prepared = connection.prepare_cached(&statement.sql).await?;
            Ok(connection.query(&prepared, &statement.parameters()).await?)
        })
    });
    let rows = rows.await?;
    let kept = &rows[..rows.len().min(limit)];
    let next = match kept.last() {
        Some(last) if rows.len() > limit => Some(Cursor::behind(last)?.text()),
        _ => None,
    };
    let items = kept.iter().map(rows::record).collect::<Result<_, _>>()?;
    Ok(InvocationPage { items, next })
}
