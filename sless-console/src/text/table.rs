//! The texts: a name, English, Russian.

macro_rules! texts {
    ($($name:ident: $english:literal, $russian:literal;)*) => {
        /// What is said in one language.
        #[derive(Debug)]
        pub(crate) struct Texts {
            $(pub(crate) $name: &'static str,)*
        }

        pub(crate) const ENGLISH: Texts = Texts { $($name: $english,)* };
        pub(crate) const RUSSIAN: Texts = Texts { $($name: $russian,)* };

        #[cfg(test)]
        const ALL: &[(&str, &str, &str)] = &[$((stringify!($name), $english, $russian),)*];
    };
}

texts! {
    skip: "Skip to content", "К содержанию";
    language: "Language", "Язык";
    sign_in: "Sign in", "Войти";
    sign_out: "Sign out", "Выйти";
    token: "Token", "Токен";
    token_hint: "A bearer token of this server, as the command line uses it. It is sent once and not kept.",
        "Токен этого сервера, тот же, что и для командной строки. Он отправляется один раз и не хранится.";
    sign_in_first: "Sign in to see this page.", "Войдите, чтобы увидеть эту страницу.";
    signed_in_already: "Signed in already? Open the page", "Уже вошли? Откройте страницу";
    read_only: "Read only. Sign in to change something.", "Только чтение. Войдите, чтобы что-то изменить.";
    namespace: "Namespace", "Пространство имён";
    own_namespace: "Your namespace", "Ваше пространство имён";
    functions: "Functions", "Функции";
    function: "Function", "Функция";
    find: "Find by name", "Найти по имени";
    show: "Show", "Показать";
    none_yet: "No functions yet.", "Функций пока нет.";
    none_found: "No function has that in its name.", "Нет функции с таким именем.";
    none_yet_hint: "Drop a zip or a folder below, or use the command line: sless init hello && sless deploy hello",
        "Перетащите zip или папку ниже или используйте командную строку: sless init hello && sless deploy hello";
    next_page: "Next page", "Следующая страница";
    open_page: "Open as a page", "Открыть отдельной страницей";
    pending: "Pending", "Ожидает";
    building: "Building", "Собирается";
    ready: "Ready", "Готова";
    failed: "Failed", "Ошибка";
    stopped: "Stopped", "Остановлена";
    deleting: "Being deleted", "Удаляется";
    runtime: "Runtime", "Среда";
    entrypoint: "Entry point", "Точка входа";
    replicas: "Replicas", "Копии";
    replicas_most: "at most", "не более";
    last_build: "Last build", "Последняя сборка";
    not_built: "not built yet", "ещё не собрана";
    created: "Created", "Создана";
    url: "URL", "Адрес";
    code: "Code", "Код";
    no_code: "none yet", "пока нет";
    image: "Artifact", "Артефакт";
    timeout: "Time limit", "Лимит времени";
    concurrency: "Calls at once", "Вызовов сразу";
    sleeps: "Sleeps after", "Засыпает через";
    sleeps_never: "never", "никогда";
    limits: "Memory, processor", "Память, процессор";
    environment: "Environment (names only)", "Окружение (только имена)";
    verdict: "Review of the code", "Проверка кода";
    verdict_safe: "Safe", "Безопасен";
    verdict_unsafe: "Unsafe", "Опасен";
    verdict_skipped: "Not reviewed", "Не проверялся";
    verdict_earlier: "of earlier code", "прежнего кода";
    verdict_by: "by", "проверил";
    triggers: "Triggers", "Триггеры";
    no_triggers: "No trigger. The URL works all the same.", "Триггеров нет. Адрес работает и без них.";
    start: "Start", "Запустить";
    stop: "Stop", "Остановить";
    active: "active", "работает";
    inactive: "not active", "не работает";
    disabled: "off", "выключен";
    next_fires: "Next fires", "Ближайшие запуски";
    last_fire: "Last fire", "Последний запуск";
    fired: "Fired", "Запусков";
    fired_failed: "failed", "с ошибкой";
    skipped: "skipped", "пропущено";
    missed: "missed", "упущено";
    queue: "Queue", "Очередь";
    connected: "connected", "подключена";
    disconnected: "not connected", "не подключена";
    waiting: "waiting", "ждут";
    in_flight: "in flight", "в работе";
    delivered: "delivered", "доставлено";
    attempts_failed: "attempts failed", "неудачных попыток";
    dead_lettered: "dead letters", "недоставленных";
    dead_letters: "Dead letters", "Недоставленные сообщения";
    no_letters: "No dead letters.", "Недоставленных сообщений нет.";
    redrive: "Redrive", "Отправить снова";
    redrive_all: "Redrive all", "Отправить снова все";
    redriven: "Put back into the queue", "Возвращено в очередь";
    attempts: "Attempts", "Попытки";
    reason: "Reason", "Причина";
    died: "Given up", "Отложено";
    body: "Body", "Тело";
    message: "Message", "Сообщение";
    source: "Source", "Исходный код";
    files: "Files", "Файлы";
    binary: "This file is not text.", "Этот файл не текстовый.";
    empty_file: "This file is empty.", "Этот файл пуст.";
    too_large: "This file is too large to be shown here.", "Этот файл слишком велик, чтобы показать его здесь.";
    download: "Download the zip", "Скачать zip";
    log: "Log", "Журнал";
    log_of: "Log of build and runs", "Журнал сборки и работы";
    log_empty: "Nothing was written yet.", "Пока ничего не записано.";
    log_live: "Live", "В реальном времени";
    log_follow: "Keep to the end", "Следить за концом";
    calls: "Calls", "Вызовы";
    no_calls: "No calls match.", "Подходящих вызовов нет.";
    no_call_log: "This server keeps no log of calls.", "Этот сервер не ведёт журнал вызовов.";
    origin: "Origin", "Источник";
    any: "any", "любой";
    failed_only: "Failed only", "Только с ошибкой";
    since: "Since", "За";
    last_hour: "last hour", "последний час";
    last_day: "last day", "последний день";
    last_week: "last week", "последнюю неделю";
    all_time: "all time", "всё время";
    filter: "Filter", "Отобрать";
    time: "Time", "Время";
    status: "Status", "Статус";
    duration: "Duration", "Длительность";
    caller: "Caller", "Кто вызвал";
    size: "In, out", "Вход, выход";
    request_id: "Request", "Запрос";
    log_tail: "End of its log", "Конец журнала";
    plot_rate: "Calls", "Вызовы";
    plot_errors: "Failed calls", "Вызовы с ошибкой";
    plot_latency: "Latency, ms (median and 95 %)", "Задержка, мс (медиана и 95 %)";
    plot_none: "no calls", "вызовов нет";
    plot_newest: "Drawn from the newest records only:", "Только по новейшим записям:";
    total: "total", "всего";
    peak: "peak", "пик";
    call: "Call", "Вызвать";
    call_function: "Call the function", "Вызвать функцию";
    method: "Method", "Метод";
    path: "Path below the URL", "Путь под адресом";
    content_type: "Content type", "Тип содержимого";
    request_body: "Request body", "Тело запроса";
    answer: "Answer", "Ответ";
    answer_cut: "cut at", "обрезано на";
    answer_binary: "bytes that are not text", "байт, это не текст";
    headers: "Header fields", "Поля заголовка";
    deploy: "Deploy", "Развернуть";
    deploy_new: "Deploy a function", "Развернуть функцию";
    deploy_code: "Deploy new code", "Развернуть новый код";
    drop_here: "Drop a zip or a folder here, or choose one.", "Перетащите сюда zip или папку или выберите.";
    zip_file: "Zip file", "Файл zip";
    folder: "Folder", "Папка";
    name: "Name", "Имя";
    name_hint: "Small letters, digits and dashes, at most 63.", "Строчные латинские буквы, цифры и дефисы, не более 63.";
    progress: "Progress of the upload", "Ход загрузки";
    deployed: "The code was taken; the build follows.", "Код принят, идёт сборка.";
    unchanged: "This very code was there already.", "Этот код уже был загружен.";
    warnings: "Warnings", "Предупреждения";
    delete: "Delete", "Удалить";
    delete_function: "Delete the function", "Удалить функцию";
    delete_hint: "Its code, its processes and its artifacts go. Type its name to confirm.",
        "Код, процессы и артефакты будут удалены. Для подтверждения введите имя.";
    receipt: "Receipt", "Квитанция";
    removed: "Removed", "Удалено";
    left: "Still there", "Ещё осталось";
    nothing_removed: "nothing more is known yet", "больше пока ничего не известно";
    back: "Back to the functions", "Назад к функциям";
    page_missing: "Nothing is here.", "Здесь ничего нет.";
    went_wrong: "That did not work", "Не получилось";
    reconnecting: "Connection lost. Trying again…", "Связь потеряна. Пробуем снова…";
    reconnected: "Connected again.", "Связь восстановлена.";
    loading: "Loading…", "Загрузка…";
    packing: "Packing…", "Упаковка…";
    uploading: "Uploading", "Загрузка";
    is_now: "is now", "теперь";
    utc: "UTC", "UTC";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_said_in_both_languages() {
        for (name, english, russian) in ALL {
            assert!(!english.is_empty() && !russian.is_empty(), "{name}");
            let cyrillic = |text: &str| text.chars().any(|c| ('а'..='я').contains(&c));
            assert!(!cyrillic(english), "{name}: {english}");
            let same = ["url", "utc"].contains(name);
            assert!(same || cyrillic(russian), "{name}: {russian}");
        }
    }
}
